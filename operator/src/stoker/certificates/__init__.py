"""The process that makes and renews the certificate of the webhook."""
