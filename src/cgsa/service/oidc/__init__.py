"""Login with an identity provider by OpenID Connect, beside the login with a token.

The authorization code flow with PKCE (OpenID Connect Core 1.0, RFC 7636). The groups of a person become a role and
machines by the table ``[[oidc.rights]]``; from then on a session is like any other. Needs the extra ``oidc``.
"""
