//! The client's half of SCRAM (RFC 5802, RFC 7677): proves the password without sending it, and checks the server's proof.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

use crate::error::shown;
use crate::secret::Secret;

/// Fewest rounds that Kafka's clients accept.
const MIN_ITERATIONS: u32 = 4096;
/// Most rounds that a server may make us work; about half a second.
const MAX_ITERATIONS: u32 = 1_000_000;

/// The hash that the mechanism is built on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// The first message sent; waits for the server's challenge.
pub(crate) struct ClientFirst<'a> {
    hash: Hash,
    password: &'a Secret,
    nonce: String,
    bare: String,
}

/// The proof sent; waits for the server's own.
pub(crate) struct ClientFinal {
    message: String,
    server_key: hmac::Key,
    auth_message: String,
}

/// Kafka's channel binding: none.
const GS2_HEADER: &str = "n,,";

impl<'a> ClientFirst<'a> {
    /// `nonce` must be fresh and printable, without a comma.
    pub(crate) fn new(hash: Hash, username: &str, password: &'a Secret, nonce: String) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={name},r={nonce}");
        Self { hash, password, nonce, bare }
    }

    /// The bytes to send.
    pub(crate) fn message(&self) -> String {
        format!("{GS2_HEADER}{}", self.bare)
    }

    /// Reads the challenge and makes the proof. The error is a sentence for people.
    pub(crate) fn answer(self, server_first: &[u8]) -> Result<ClientFinal, String> {
        let challenge = std::str::from_utf8(server_first).map_err(|_| "its challenge is no text")?;
        if let Some(refusal) = challenge.strip_prefix("e=") {
            return Err(format!("it refused the login: {}", shown(refusal)));
        }
        let mut fields = challenge.split(',');
        let nonce = field(fields.next(), "r=")?;
        let salt = field(fields.next(), "s=")?;
        let iterations = field(fields.next(), "i=")?;
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err("its challenge does not continue our nonce".to_owned());
        }
        let salt = BASE64.decode(salt).map_err(|_| "the salt of its challenge can't be read")?;
        let iterations = iterations
            .parse::<u32>()
            .ok()
            .filter(|rounds| (MIN_ITERATIONS..=MAX_ITERATIONS).contains(rounds))
            .and_then(NonZeroU32::new)
            .ok_or_else(|| format!("its number of rounds is not between {MIN_ITERATIONS} and {MAX_ITERATIONS}"))?;

        let algorithm = self.hash.hmac();
        let mut salted = vec![0; self.hash.digest().output_len()];
        pbkdf2::derive(self.hash.pbkdf2(), iterations, &salt, self.password.expose().as_bytes(), &mut salted);
        let salted = hmac::Key::new(algorithm, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(self.hash.digest(), client_key.as_ref());
        let server_key = hmac::sign(&salted, b"Server Key");

        let without_proof = format!("c={},r={nonce}", BASE64.encode(GS2_HEADER));
        let auth_message = format!("{},{challenge},{without_proof}", self.bare);
        let signature = hmac::sign(&hmac::Key::new(algorithm, stored_key.as_ref()), auth_message.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, mask)| key ^ mask).collect();
        Ok(ClientFinal {
            message: format!("{without_proof},p={}", BASE64.encode(proof)),
            server_key: hmac::Key::new(algorithm, server_key.as_ref()),
            auth_message,
        })
    }
}

impl ClientFinal {
    /// The bytes to send.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Checks that the server knows the password as well.
    pub(crate) fn verify(&self, server_final: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(server_final).map_err(|_| "its last message is no text")?;
        if let Some(refusal) = text.strip_prefix("e=") {
            return Err(format!("it refused the login: {}", shown(refusal)));
        }
        let signature = field(text.split(',').next(), "v=")?;
        let signature = BASE64.decode(signature).map_err(|_| "its proof can't be read")?;
        hmac::verify(&self.server_key, self.auth_message.as_bytes(), &signature).map_err(|_| {
            "its proof is wrong: it does not know the password, so it may not be the server that you mean".to_owned()
        })
    }
}

fn field<'m>(part: Option<&'m str>, key: &str) -> Result<&'m str, String> {
    part.and_then(|part| part.strip_prefix(key)).ok_or_else(|| format!("its message lacks the field `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Vector {
        hash: Hash,
        nonce: &'static str,
        server_first: &'static str,
        client_final: &'static str,
        server_final: &'static str,
    }

    /// RFC 7677 §3 (user `user`, password `pencil`).
    const RFC_7677: Vector = Vector {
        hash: Hash::Sha256,
        nonce: "rOprNGfwEbeRWgbNEkqO",
        server_first: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        client_final: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        server_final: "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    };

    fn first(vector: &Vector, password: &Secret) -> Result<ClientFinal, String> {
        let first = ClientFirst::new(vector.hash, "user", password, vector.nonce.to_owned());
        assert_eq!(first.message(), format!("n,,n=user,r={}", vector.nonce));
        first.answer(vector.server_first.as_bytes())
    }

    #[test]
    fn the_exchange_of_rfc_7677() {
        let last = first(&RFC_7677, &Secret::new("pencil")).expect("a proof");
        assert_eq!(last.message(), RFC_7677.client_final);
        assert_eq!(last.verify(RFC_7677.server_final.as_bytes()), Ok(()));
    }

    #[test]
    fn a_server_without_the_password_is_found_out() {
        let last = first(&RFC_7677, &Secret::new("pencils")).expect("a proof");
        assert_ne!(last.message(), RFC_7677.client_final);
        let told = last.verify(RFC_7677.server_final.as_bytes()).expect_err("a wrong proof");
        assert!(told.contains("does not know the password"), "{told}");
    }

    #[test]
    fn sha_512_makes_proofs_of_its_own_length() {
        let vector = Vector { hash: Hash::Sha512, ..RFC_7677 };
        let last = first(&vector, &Secret::new("pencil")).expect("a proof");
        let proof = last.message().rsplit("p=").next().and_then(|p| BASE64.decode(p).ok());
        assert_eq!(proof.map(|p| p.len()), Some(64));
        assert!(last.verify(RFC_7677.server_final.as_bytes()).is_err());
    }

    #[test]
    fn hostile_challenges_are_refused() {
        let password = Secret::new("pencil");
        for (challenge, told) in [
            ("r=other,s=W22Z,i=4096", "does not continue our nonce"),
            ("r=abc,s=W22Z,i=4096", "does not continue our nonce"),
            ("r=abcd,s=!,i=4096", "salt"),
            ("r=abcd,s=W22Z,i=1", "number of rounds"),
            ("r=abcd,s=W22Z,i=4000000000", "number of rounds"),
            ("r=abcd,s=W22Z", "lacks the field `i=`"),
            ("e=unknown-user\u{1b}", "refused the login: unknown-user\\u{1b}"),
            ("", "lacks the field `r=`"),
        ] {
            let first = ClientFirst::new(Hash::Sha256, "u", &password, "abc".to_owned());
            let error = first.answer(challenge.as_bytes()).err().expect(challenge);
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let password = Secret::new("p");
        let first = ClientFirst::new(Hash::Sha256, "a=b,c", &password, "n".to_owned());
        assert_eq!(first.message(), "n,,n=a=3Db=2Cc,r=n");
    }
}
