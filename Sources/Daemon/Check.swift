import Configuration
package import Observability
import Proxy

/// What `sallyport check` finds: a configuration read, its material loaded and its names looked up as `run` would, but
/// nothing bound, and no log opened.
package struct Check {
  package let diagnostics: [Diagnostic]
  /// The effective policy of every server; empty when the configuration could not be read.
  package let policy: [String]

  package init(_ path: String) {
    let (settings, draft, found) = Configuration.read(path: path)
    guard let settings else {
      diagnostics = found + KeyMaterial.faults(in: draft?.http, besides: found)
      policy = []
      return
    }
    let material = KeyMaterial(loading: settings.http)
    // A warning here: where a configuration is checked is not always where it runs.
    let unresolved = Resolution.resolve(settings.http.groups).diagnostics.map { diagnostic in
      var warning = diagnostic
      warning.severity = .warning
      return warning
    }
    diagnostics = found + material.diagnostics + unresolved
    policy = EffectivePolicy(settings.http, material).lines
  }

  package func count(_ severity: Diagnostic.Severity) -> Int {
    diagnostics.reduce(0) { $0 + ($1.severity == severity ? 1 : 0) }
  }
}
