//! The answer: yes with a permit, or no with a denial.

use super::{Denial, Request};
use crate::policy::{Grant, GrantId, Policy};

/// What [`decide`](super::decide) says.
#[derive(Debug)]
#[must_use]
pub enum Decision<'a> {
    /// Yes; the permit is what later steps ask for.
    Allow(Permit<'a>),
    /// No, and why.
    Deny(Box<Denial>),
}

impl<'a> Decision<'a> {
    /// Whether the answer is yes.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// The denial, when the answer is no.
    #[must_use]
    pub fn denial(&self) -> Option<&Denial> {
        match self {
            Self::Allow(_) => None,
            Self::Deny(denial) => Some(denial),
        }
    }

    /// The permit, when the answer is yes.
    #[must_use]
    pub fn permit(&self) -> Option<Permit<'a>> {
        match self {
            Self::Allow(permit) => Some(*permit),
            Self::Deny(_) => None,
        }
    }
}

/// Proof that a request was allowed. Only [`decide`](super::decide) makes one.
#[derive(Clone, Copy, Debug)]
pub struct Permit<'a> {
    policy: &'a Policy,
    grant: GrantId,
    request: &'a Request,
}

impl<'a> Permit<'a> {
    pub(super) const fn new(policy: &'a Policy, grant: GrantId, request: &'a Request) -> Self {
        Self { policy, grant, request }
    }

    /// The policy that allowed it.
    #[must_use]
    pub const fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// The grant that allowed it.
    #[must_use]
    pub fn grant(&self) -> &'a Grant {
        self.policy.grant(self.grant)
    }

    /// Its number in the policy.
    #[must_use]
    pub const fn grant_id(&self) -> GrantId {
        self.grant
    }

    /// What was allowed.
    #[must_use]
    pub const fn request(&self) -> &'a Request {
        self.request
    }
}
