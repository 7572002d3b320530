import Transport

/// A text that a handshake computes: the variable of a `map`, `geo` or `split_clients` in the name of a certificate.
///
/// The configuration language's tables belong to other modules, so the settings bring the computation with them.
public struct HandshakeText: Sendable, Hashable {
  /// Computes the value of the variables that a handshake knows; nil if there is none that can be part of a file's name.
  public typealias Computation = @Sendable (_ known: (HandshakeVariable) -> [UInt8]?) -> [UInt8]?

  /// The variable's name, without `$`.
  public let name: String
  /// The lines that define the variable, and those of the variables that they need: equal lines compute equal values.
  public let definition: String
  /// The folders in which its values begin, where the name of a file begins with it. Absolute, or relative to the working
  /// directory.
  public let folders: [String]
  private let computation: Computation

  public init(name: String, definition: String, folders: [String], _ computation: @escaping Computation) {
    self.name = name
    self.definition = definition
    self.folders = folders
    self.computation = computation
  }

  public static func == (left: HandshakeText, right: HandshakeText) -> Bool {
    left.name == right.name && left.definition == right.definition && left.folders == right.folders
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(name)
    hasher.combine(definition)
  }

  /// The value as part of a file's name; nil for one that can't be one. A table may say what counts without SNI, but not
  /// what counts for an SNI that is no host name.
  func value(for facts: HandshakeFacts) -> String? {
    let bytes = computation { variable in
      if variable == .ssl_server_name, facts.serverName.isEmpty { return [] }
      return facts.value(of: variable).map { Array($0.utf8) }
    }
    guard let bytes, !bytes.isEmpty, !bytes.contains(0) else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }
}
