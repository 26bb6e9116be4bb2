"""The change that a finding proposes: computed from the script, and made in the file that holds it."""
