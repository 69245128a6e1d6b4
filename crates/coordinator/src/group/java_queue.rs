//! A priority queue that gives elements of equal rank in the order of Java's, which Kafka's assignor shows (D8).

/// A binary heap in an array: a new element rises above larger ones, the last one fills the place of the first.
#[derive(Debug)]
pub(super) struct JavaQueue {
    heap: Vec<usize>,
}

impl JavaQueue {
    /// The elements, put in one after the other; `rank` is what they are ordered by.
    pub(super) fn new<R: Ord>(elements: impl IntoIterator<Item = usize>, rank: impl Fn(usize) -> R) -> Self {
        let mut queue = Self { heap: Vec::new() };
        for element in elements {
            queue.add(element, &rank);
        }
        queue
    }

    /// Puts an element in.
    pub(super) fn add<R: Ord>(&mut self, element: usize, rank: impl Fn(usize) -> R) {
        self.heap.push(element);
        let mut at = self.heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.rank(at, &rank) >= self.rank(parent, &rank) {
                break;
            }
            self.heap.swap(at, parent);
            at = parent;
        }
    }

    /// Takes out one of the smallest.
    pub(super) fn poll<R: Ord>(&mut self, rank: impl Fn(usize) -> R) -> Option<usize> {
        let last = self.heap.len().checked_sub(1)?;
        self.heap.swap(0, last);
        let first = self.heap.pop();
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                return first;
            }
            let right_is_less = right < self.heap.len() && self.rank(right, &rank) < self.rank(left, &rank);
            let child = if right_is_less { right } else { left };
            if self.rank(at, &rank) <= self.rank(child, &rank) {
                return first;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    fn rank<R: Ord>(&self, at: usize, rank: impl Fn(usize) -> R) -> Option<R> {
        self.heap.get(at).map(|element| rank(*element))
    }
}

#[cfg(test)]
mod tests {
    use super::JavaQueue;

    #[test]
    fn d8_equals_come_as_javas_queue_gives_them() {
        let mut counts = [0, 0, 0];
        let mut queue = JavaQueue::new(0..3, |i| counts[i]);
        let mut order = Vec::new();
        for _ in 0..7 {
            let next = queue.poll(|i| counts[i]).unwrap();
            order.push(next);
            counts[next] += 1;
            queue.add(next, |i| counts[i]);
        }
        assert_eq!(order, [0, 2, 1, 2, 1, 0, 1]);
    }
}
