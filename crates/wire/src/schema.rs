//! The macros in which a message reads like its schema: one line a field, with type, versions, versions in which it may
//! be null, tag, whether older versions drop it, and default.
//!
//! ```text
//! message! {
//!     /// Doc.
//!     Name: key 42, versions 0..=3, flexible 2.. {
//!         results: Vec<DeletableGroupResult> [0..],
//!         error_message: Option<String> [3..] null [3..] [ignorable] = None,
//!         features: Vec<Feature> [3..] tag 0 [ignorable],
//!     }
//! }
//! ```
//!
//! A field without a default has its type's (empty, zero, false). A value other than the default in a version that
//! lacks the field is an error, unless the field is ignorable (kip1331 §1.1).

/// A struct that stands inside messages.
macro_rules! structure {
    ($(#[$meta:meta])* $name:ident { $($fields:tt)* }) => {
        structure!(@define [$(#[$meta])*] $name [] { $($fields)* });
        structure!(@code ['a] [$name] { $($fields)* });
    };
    ($(#[$meta:meta])* $name:ident<$lt:lifetime> { $($fields:tt)* }) => {
        structure!(@define [$(#[$meta])*] $name [<$lt>] { $($fields)* });
        structure!(@code [$lt] [$name<$lt>] { $($fields)* });
    };
    (@define [$(#[$meta:meta])*] $name:ident [$($generics:tt)*] { $(
        $(#[$doc:meta])*
        $field:ident : $ty:ty [$($versions:tt)+] $(null [$($null:tt)+])? $(tag $tag:literal)? $([$ignorable:ident])?
        $(= $default:expr)?
    ),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name $($generics)* {
            $(
                #[doc = concat!("Versions `", stringify!($($versions)+), "`"
                    $(, ", null in `", stringify!($($null)+), "`")? $(, ", tag ", stringify!($tag))?
                    $(, ", ", stringify!($ignorable))? $(, ", default `", stringify!($default), "`")?, ".")]
                $(#[$doc])*
                pub $field: $ty,
            )*
            /// Unknown tagged fields.
            pub tags: $crate::tags::Tags,
        }

        impl $($generics)* Default for $name $($generics)* {
            fn default() -> Self {
                Self { $($field: schema_default!($ty $(, $default)?),)* tags: Default::default() }
            }
        }
    };
    (@code [$lt:lifetime] [$self:ty] { $(
        $(#[$doc:meta])*
        $field:ident : $ty:ty [$($versions:tt)+] $(null [$($null:tt)+])? $(tag $tag:literal)? $([$ignorable:ident])?
        $(= $default:expr)?
    ),* $(,)? }) => {
        impl<$lt> $crate::value::Value<$lt> for $self {
            #[inline]
            fn read(
                r: &mut $crate::reader::Reader<$lt>,
                l: $crate::value::Layout,
            ) -> Result<Self, $crate::error::DecodeError> {
                let version = l.version;
                $(
                    #[allow(unused_mut)]
                    let mut $field: $ty = if in_versions!(version, $($versions)+) && !is_tagged!($($tag)?) {
                        let l = l.nullable(false $(|| in_versions!(version, $($null)+))?);
                        match $crate::value::Value::read(r, l) {
                            Ok(value) => value,
                            Err(error) => return Err(error.at(stringify!($field))),
                        }
                    } else {
                        schema_default!($ty $(, $default)?)
                    };
                )*
                #[allow(unused_variables)]
                let tags = if l.flexible {
                    $crate::tags::Tags::read(r, |tag, r| {
                        $(read_tagged!(
                            [$($tag)?] tag, r, in_versions!(version, $($versions)+),
                            l.nullable(false $(|| in_versions!(version, $($null)+))?), $field
                        );)*
                        Ok(false)
                    })
                    .map_err(|e| e.at("tags"))?
                } else {
                    Default::default()
                };
                Ok(Self { $($field,)* tags })
            }

            #[inline]
            fn write(
                &self,
                w: &mut $crate::writer::Writer<'_>,
                l: $crate::value::Layout,
            ) -> Result<(), $crate::error::EncodeError> {
                let version = l.version;
                #[allow(unused_mut)]
                let mut known = $crate::tags::KnownTags::default();
                $(
                    if !in_versions!(version, $($versions)+) {
                        if !is_ignorable!($($ignorable)?) && self.$field != schema_default!($ty $(, $default)?) {
                            return Err($crate::error::EncodeError::new(
                                $crate::error::Unencodable::NotInVersion(version),
                            )
                            .at(stringify!($field)));
                        }
                    } else {
                        let l = l.nullable(false $(|| in_versions!(version, $($null)+))?);
                        let written = write_field!(self, w, known, l, $field: $ty, $($tag)?; $($default)?);
                        if let Err(error) = written {
                            return Err(error.at(stringify!($field)));
                        }
                    }
                )*
                if l.flexible {
                    self.tags.write(w, known).map_err(|e| e.at("tags"))
                } else if self.tags.is_empty() {
                    Ok(())
                } else {
                    let reason = $crate::error::Unencodable::NotInVersion(version);
                    Err($crate::error::EncodeError::new(reason).at("tags"))
                }
            }

            fn tree(&self, version: i16) -> $crate::tree::Tree {
                #[allow(unused_mut)]
                let mut fields = Vec::new();
                $(
                    if in_versions!(version, $($versions)+) {
                        fields.push((stringify!($field), $crate::value::Value::tree(&self.$field, version)));
                    }
                )*
                let tags = self.tags.iter().map(|(tag, bytes)| (tag, bytes.to_vec())).collect();
                $crate::tree::Tree::Struct(fields, tags)
            }
        }

        impl<$lt> $crate::value::Nullable<$lt> for $self {
            fn read_nullable(
                r: &mut $crate::reader::Reader<$lt>,
                l: $crate::value::Layout,
            ) -> Result<Option<Self>, $crate::error::DecodeError> {
                if $crate::value::struct_follows(r)? {
                    $crate::value::Value::read(r, l).map(Some)
                } else {
                    Ok(None)
                }
            }

            fn write_null(
                w: &mut $crate::writer::Writer<'_>,
                _: $crate::value::Layout,
            ) -> Result<(), $crate::error::EncodeError> {
                w.i8(-1);
                Ok(())
            }

            fn write_present(
                &self,
                w: &mut $crate::writer::Writer<'_>,
                l: $crate::value::Layout,
            ) -> Result<(), $crate::error::EncodeError> {
                w.i8(1);
                $crate::value::Value::write(self, w, l)
            }
        }
    };
}

/// A request or response: a structure with an API key, versions, and the first version with compact forms.
macro_rules! message {
    ($(#[$meta:meta])* $name:ident: key $key:literal, versions $versions:expr, flexible $flexible:literal.. {
        $($fields:tt)*
    }) => {
        structure!($(#[$meta])* $name { $($fields)* });
        message!(@code ['a] [$name] $key, $versions, $flexible);
    };
    ($(#[$meta:meta])* $name:ident<$lt:lifetime>: key $key:literal, versions $versions:expr, flexible $flexible:literal.. {
        $($fields:tt)*
    }) => {
        structure!($(#[$meta])* $name<$lt> { $($fields)* });
        message!(@code [$lt] [$name<$lt>] $key, $versions, $flexible);
    };
    (@code [$lt:lifetime] [$self:ty] $key:literal, $versions:expr, $flexible:literal) => {
        impl<$lt> $crate::Message<$lt> for $self {
            const API_KEY: i16 = $key;
            const VERSIONS: std::ops::RangeInclusive<i16> = $versions;
            const FIRST_FLEXIBLE: i16 = $flexible;

            fn decode(
                r: &mut $crate::reader::Reader<$lt>,
                version: i16,
            ) -> Result<Self, $crate::error::DecodeError> {
                if !Self::VERSIONS.contains(&version) {
                    let reason = $crate::error::Malformed::UnsupportedVersion { api_key: $key, version };
                    return Err($crate::error::DecodeError::new(reason));
                }
                $crate::value::Value::read(r, $crate::value::Layout::new(version, version >= $flexible))
            }

            fn encode(
                &self,
                w: &mut $crate::writer::Writer<'_>,
                version: i16,
            ) -> Result<(), $crate::error::EncodeError> {
                if !Self::VERSIONS.contains(&version) {
                    let reason = $crate::error::Unencodable::UnsupportedVersion { api_key: $key, version };
                    return Err($crate::error::EncodeError::new(reason));
                }
                $crate::value::Value::write(self, w, $crate::value::Layout::new(version, version >= $flexible))
            }
        }
    };
}

macro_rules! schema_default {
    ($ty:ty) => {
        <$ty as Default>::default()
    };
    ($ty:ty, $default:expr) => {
        $default
    };
}

macro_rules! in_versions {
    ($version:ident, $first:literal ..) => {
        $version >= $first
    };
    ($version:ident, $first:literal ..= $last:literal) => {
        ($first..=$last).contains(&$version)
    };
}

macro_rules! is_tagged {
    () => {
        false
    };
    ($tag:literal) => {
        true
    };
}

macro_rules! read_tagged {
    ([] $($rest:tt)*) => {};
    ([$known:literal] $tag:ident, $r:ident, $in_version:expr, $l:expr, $field:ident) => {
        if $tag == $known && $in_version {
            $field = $crate::value::Value::read($r, $l).map_err(|e| e.at(stringify!($field)))?;
            return Ok(true);
        }
    };
}

macro_rules! is_ignorable {
    () => {
        false
    };
    (ignorable) => {
        true
    };
}

/// A tagged field is written only when it differs from its default, and in the tag section.
macro_rules! write_field {
    ($self:ident, $w:ident, $known:ident, $l:ident, $field:ident: $ty:ty, ; $($default:expr)?) => {
        $crate::value::Value::write(&$self.$field, $w, $l)
    };
    ($self:ident, $w:ident, $known:ident, $l:ident, $field:ident: $ty:ty, $tag:literal; $($default:expr)?) => {
        if $self.$field == schema_default!($ty $(, $default)?) {
            Ok(())
        } else {
            $known.add($tag, &$self.$field, $l)
        }
    };
}
