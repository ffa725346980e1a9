//! Places that learning knows, from `profiles/learn/places.txt`.

use super::table::{count, rows};

/// What a known place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceSort {
    /// Below the home directory, never proposed.
    Secret,
    /// A name anywhere, called out when it is read.
    Private,
    /// Below the home directory, proposed as a whole.
    Cache,
}

/// A known place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownPlace {
    /// What it is.
    pub sort: PlaceSort,
    /// Where: below the home directory, or a mere name.
    pub path: &'static str,
    /// What is there.
    pub what: &'static str,
}

const TEXT: &str = include_str!("../../profiles/learn/places.txt");
static ROWS: [[&str; 3]; count(TEXT)] = rows(TEXT);

/// The known places of a sort.
pub fn known_places(sort: PlaceSort) -> impl Iterator<Item = KnownPlace> {
    let name = match sort {
        PlaceSort::Secret => "secret",
        PlaceSort::Private => "private",
        PlaceSort::Cache => "cache",
    };
    ROWS.iter().filter(move |[row, ..]| *row == name).map(move |[_, path, what]| KnownPlace {
        sort,
        path,
        what,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_of_a_known_sort() {
        let sorts = [PlaceSort::Secret, PlaceSort::Private, PlaceSort::Cache];
        assert_eq!(sorts.into_iter().map(|sort| known_places(sort).count()).sum::<usize>(), ROWS.len());
        // A cache is proposed as a whole.
        let inside =
            |place: KnownPlace, other: KnownPlace| std::path::Path::new(place.path).starts_with(other.path);
        for cache in known_places(PlaceSort::Cache) {
            let secret = known_places(PlaceSort::Secret)
                .find(|secret| inside(*secret, cache) || inside(cache, *secret));
            assert_eq!(secret, None, "{}", cache.path);
        }
        assert!(known_places(PlaceSort::Private).all(|place| !place.path.contains('/')));
    }
}
