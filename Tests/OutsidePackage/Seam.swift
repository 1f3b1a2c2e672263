import TidemarkEmbedded

/// The seam between the rules and a store: nobody outside the package sees it, so this does not compile.
func seam(_ transaction: any CommitTransaction) {}
