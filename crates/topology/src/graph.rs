//! The edges of a description, resolved once: predecessors by the rules of kip1331 §11.1, components for findings and
//! sizes for order. Linear in nodes and edges, without recursion, whatever the client sent.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::model::{Description, GlobalStore, Node, NodeRef};
use crate::names::utf16_order;

/// Position of a name in a scope's tables.
type Vertex = u32;

/// The edges of every part of a description.
#[derive(Clone, Debug)]
pub struct Graph<'a> {
    /// One for each subtopology, in order.
    pub subtopologies: Vec<Scope<'a>>,
    /// One for each global store, in order.
    pub global_stores: Vec<Scope<'a>>,
}

impl<'a> Graph<'a> {
    /// Resolves the edges of `description`.
    pub fn of(description: &'a Description) -> Self {
        Self {
            subtopologies: description
                .subtopologies
                .iter()
                .map(|s| Scope::of(s.nodes.iter().map(Node::view).collect()))
                .collect(),
            global_stores: description
                .global_stores
                .iter()
                .map(|g| Scope::of(GlobalStore::nodes(g).to_vec()))
                .collect(),
        }
    }
}

/// The nodes within which names are resolved: a subtopology, or the pair of a global store. Nodes that share a name share
/// a vertex, since an edge names its end and cannot tell them apart.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    nodes: Vec<NodeRef<'a>>,
    vertex_of_node: Vec<Vertex>,
    vertices: HashMap<&'a str, Vertex>,
    names: Vec<&'a str>,
    successors: Rows,
    predecessors: Rows,
}

impl<'a> Scope<'a> {
    fn of(nodes: Vec<NodeRef<'a>>) -> Self {
        let mut vertices = HashMap::with_capacity(nodes.len());
        let mut names = Vec::with_capacity(nodes.len());
        let mut vertex_of_node = Vec::with_capacity(nodes.len());
        for node in &nodes {
            vertex_of_node.push(match vertices.entry(node.name()) {
                Entry::Occupied(seen) => *seen.get(),
                Entry::Vacant(new) => {
                    names.push(node.name());
                    *new.insert(names.len() as Vertex - 1)
                }
            });
        }
        // (from, to) of every edge whose end exists; nodes of one name may repeat an edge
        let mut edges: Vec<(Vertex, Vertex)> = Vec::new();
        for (node, from) in nodes.iter().zip(&vertex_of_node) {
            edges.extend(node.successors().iter().filter_map(|s| vertices.get(s.as_str())).map(|to| (*from, *to)));
        }
        let once = Rows::grouped(names.len(), &edges).deduplicated();
        edges.clear();
        edges.extend((0..).zip(once.rows()).flat_map(|(from, row)| row.iter().map(move |to| (*to, from))));
        let mut predecessors = Rows::grouped(names.len(), &edges);
        predecessors.sort_each(|a, b| {
            let name = |v: &Vertex| names.get(*v as usize).copied().unwrap_or_default();
            utf16_order(name(a), name(b))
        });
        Self { nodes, vertex_of_node, vertices, names, successors: once, predecessors }
    }

    /// The nodes, in received order.
    pub fn nodes(&self) -> &[NodeRef<'a>] {
        &self.nodes
    }

    /// Whether some node bears this name.
    pub fn contains(&self, name: &str) -> bool {
        self.vertices.contains_key(name)
    }

    /// Names of the nodes that name the node at `index` as a successor, each once, by UTF-16 code units. Nodes of one name
    /// have the same predecessors.
    pub fn predecessors(&self, index: usize) -> impl Iterator<Item = &'a str> + '_ {
        let row = self.vertex_of_node.get(index).map_or(&[][..], |v| self.predecessors.row(*v));
        row.iter().filter_map(|v| self.names.get(*v as usize).copied())
    }

    /// How often each distinct name occurs, in order of first occurrence.
    pub(crate) fn occurrences(&self) -> impl Iterator<Item = (&'a str, usize)> + '_ {
        let mut count = vec![0; self.names.len()];
        for vertex in &self.vertex_of_node {
            if let Some(c) = count.get_mut(*vertex as usize) {
                *c += 1;
            }
        }
        self.names.iter().copied().zip(count)
    }

    /// For each node, whether a source leads to it (or shares its name).
    pub(crate) fn reachable(&self) -> Vec<bool> {
        let mut reached = vec![false; self.names.len()];
        let sources = self.nodes.iter().zip(&self.vertex_of_node).filter(|(n, _)| matches!(n, NodeRef::Source(_)));
        let mut stack: Vec<Vertex> = sources.map(|(_, v)| *v).collect();
        while let Some(vertex) = stack.pop() {
            if let Some(seen) = reached.get_mut(vertex as usize)
                && !*seen
            {
                *seen = true;
                stack.extend_from_slice(self.successors.row(vertex));
            }
        }
        self.vertex_of_node.iter().map(|v| reached.get(*v as usize).copied().unwrap_or(false)).collect()
    }

    /// The distinct names of each loop: strongly connected components of more than one name, and names that succeed
    /// themselves. Names and loops in order of first occurrence.
    pub(crate) fn cycles(&self) -> Vec<Vec<&'a str>> {
        let mut cycles: Vec<Vec<Vertex>> = self
            .components()
            .into_iter()
            .filter(|c| c.len() > 1 || c.iter().any(|v| self.successors.row(*v).contains(v)))
            .map(|mut c| {
                c.sort_unstable();
                c
            })
            .collect();
        cycles.sort_unstable_by_key(|c| c.first().copied());
        let name = |v: Vertex| self.names.get(v as usize).copied();
        cycles.into_iter().map(|c| c.into_iter().filter_map(name).collect()).collect()
    }

    /// Size of each node as `Topology#describe()` counts it: one, and the size of each successor, so that a node that can
    /// be reached in two ways counts twice. An edge within a loop (impossible in a running application) does not count.
    pub(crate) fn sizes(&self) -> HashMap<&'a str, u64> {
        let components = self.components();
        let mut component_of = vec![0; self.names.len()];
        for (number, component) in components.iter().enumerate() {
            for vertex in component {
                if let Some(c) = component_of.get_mut(*vertex as usize) {
                    *c = number;
                }
            }
        }
        let mut sizes = vec![1u64; self.names.len()];
        // components come successors first
        for vertex in components.iter().flatten().copied() {
            let own = component_of.get(vertex as usize);
            let outside = self.successors.row(vertex).iter().filter(|s| component_of.get(**s as usize) != own);
            let sum = outside.filter_map(|s| sizes.get(*s as usize)).fold(1u64, |sum, size| sum.saturating_add(*size));
            if let Some(size) = sizes.get_mut(vertex as usize) {
                *size = sum;
            }
        }
        self.names.iter().copied().zip(sizes).collect()
    }

    /// Strongly connected components, each after those that it leads to (Tarjan, with the call stack as a list).
    fn components(&self) -> Vec<Vec<Vertex>> {
        const NEW: u32 = u32::MAX;
        const DONE: u32 = u32::MAX - 1;
        let count = self.names.len();
        // order of discovery, lowered to that of the oldest vertex on the path that can be reached
        let mut low = vec![NEW; count];
        let mut path: Vec<Vertex> = Vec::new();
        let mut calls: Vec<Call> = Vec::new();
        let mut components = Vec::new();
        let mut next = 0;
        for root in 0..count as Vertex {
            if low.get(root as usize) == Some(&NEW) {
                calls.push(Call { vertex: root, found: next, edge: 0 });
            }
            while let Some(call) = calls.last_mut() {
                let vertex = call.vertex;
                let Some(own) = low.get(vertex as usize).copied() else {
                    break;
                };
                if own == NEW {
                    call.found = next;
                    set(&mut low, vertex, next);
                    next += 1;
                    path.push(vertex);
                }
                if let Some(to) = self.successors.row(vertex).get(call.edge) {
                    match low.get(*to as usize).copied().unwrap_or(DONE) {
                        NEW => calls.push(Call { vertex: *to, found: 0, edge: 0 }),
                        DONE => call.edge += 1,
                        theirs => {
                            lower(&mut low, vertex, theirs);
                            call.edge += 1;
                        }
                    }
                    continue;
                }
                let found = call.found;
                calls.pop();
                // a caller sees this vertex's `low` when it looks at the same edge again
                if low.get(vertex as usize) == Some(&found) {
                    let start = path.iter().rposition(|v| *v == vertex).unwrap_or(0);
                    let component = path.split_off(start);
                    for v in &component {
                        set(&mut low, *v, DONE);
                    }
                    components.push(component);
                }
            }
        }
        components
    }
}

struct Call {
    vertex: Vertex,
    found: u32,
    edge: usize,
}

fn set(low: &mut [u32], vertex: Vertex, value: u32) {
    if let Some(l) = low.get_mut(vertex as usize) {
        *l = value;
    }
}

fn lower(low: &mut [u32], vertex: Vertex, value: u32) {
    if let Some(l) = low.get_mut(vertex as usize) {
        *l = (*l).min(value);
    }
}

/// Lists of vertices, one for each vertex, in two flat arrays.
#[derive(Clone, Debug, Default)]
struct Rows {
    starts: Vec<usize>,
    items: Vec<Vertex>,
}

impl Rows {
    /// The second of each pair, grouped by the first, in given order (counting sort).
    fn grouped(rows: usize, pairs: &[(Vertex, Vertex)]) -> Self {
        let mut starts = vec![0; rows + 1];
        for (row, _) in pairs {
            if let Some(n) = starts.get_mut(*row as usize + 1) {
                *n += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut items = vec![0; pairs.len()];
        for (row, item) in pairs {
            if let Some(at) = next.get_mut(*row as usize) {
                if let Some(slot) = items.get_mut(*at) {
                    *slot = *item;
                }
                *at += 1;
            }
        }
        Self { starts, items }
    }

    fn row(&self, vertex: Vertex) -> &[Vertex] {
        let start = self.starts.get(vertex as usize).copied().unwrap_or(0);
        let end = self.starts.get(vertex as usize + 1).copied().unwrap_or(start);
        self.items.get(start..end).unwrap_or_default()
    }

    fn rows(&self) -> impl Iterator<Item = &[Vertex]> {
        self.starts.windows(2).map(|w| match w {
            [start, end] => self.items.get(*start..*end).unwrap_or_default(),
            _ => &[],
        })
    }

    /// Each item once a row, first occurrence kept.
    fn deduplicated(&self) -> Self {
        let mut last_row = vec![usize::MAX; self.starts.len()];
        let mut unique = Self { starts: vec![0], items: Vec::with_capacity(self.items.len()) };
        for (number, row) in self.rows().enumerate() {
            for item in row {
                if let Some(last) = last_row.get_mut(*item as usize)
                    && *last != number
                {
                    *last = number;
                    unique.items.push(*item);
                }
            }
            unique.starts.push(unique.items.len());
        }
        unique
    }

    fn sort_each(&mut self, order: impl Fn(&Vertex, &Vertex) -> std::cmp::Ordering) {
        for bounds in self.starts.windows(2) {
            if let [start, end] = bounds
                && let Some(row) = self.items.get_mut(*start..*end)
            {
                row.sort_unstable_by(&order);
            }
        }
    }
}
