package import Observability

/// Why a start or a reload was refused: everything that was found, in the order of the configuration.
package struct Refusal: Error, Sendable, CustomStringConvertible {
  package let diagnostics: [Diagnostic]
  package let cause: Cause

  /// What has to change before another start can succeed.
  package enum Cause: Sendable, Equatable {
    /// The configuration, or a file that it names. Another start in a second fails the same way.
    case configuration
    /// Something outside: an address that another process has, an interface that isn't up, a lack of descriptors.
    case environment
    /// Only names that DNS doesn't know or can't be asked for.
    case names([String])

    /// The exit status of a start. The unit doesn't restart after EX_CONFIG of sysexits(3).
    package var exitStatus: Int32 {
      switch self {
      case .configuration: 78
      case .environment, .names: 1
      }
    }
  }

  package init(_ diagnostics: [Diagnostic], cause: Cause = .configuration) {
    self.diagnostics = diagnostics
    self.cause = cause
  }

  /// One line for `systemctl status`: the number of errors and the first one.
  package func summary(_ wording: (Diagnostic) -> Diagnostic = { $0 }) -> String {
    let first = errors.first.map(wording)
    let place = first?.location.map { "\($0): " } ?? ""
    return "\(errors.count) \(errors.count == 1 ? "error" : "errors"): \(place)\(first?.message ?? "")"
  }

  package var errors: [Diagnostic] { diagnostics.filter { $0.severity == .error } }
  package var description: String { diagnostics.map(\.description).joined(separator: "\n") }
}
