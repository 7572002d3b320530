import Bytes

/// Why a covered component can't be one, or has no value in a message.
public enum ComponentError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Not a lower-case name as a string.
  case malformed
  case unknown(String)
  case parameter(String, of: String)
  case absent(String)
  case repeated(String)
  /// The value has bytes outside ASCII or is not the structure that the component needs.
  case value(String)
  case doubled(String)

  public var description: String {
    switch self {
    case .malformed: "a component that is no lower-case name"
    case .unknown(let name): "an unknown component \(name)"
    case .parameter(let parameter, let name): "the parameter \"\(parameter)\" that \(name) does not have for requests"
    case .absent(let name): "the component \(name), which the request does not have"
    case .repeated(let name): "the component \(name), which the request has twice"
    case .value(let name): "the component \(name), whose value can't be signed in this form"
    case .doubled(let name): "the component \(name) twice"
    }
  }
}

/// A component of a request that a signature covers (RFC 9421 §2.1, §2.2). Two components are equal if they stand for the
/// same thing, in whatever order their parameters are.
public struct Component: Sendable, Hashable {
  enum Name: Sendable, Hashable {
    case method, targetURI, authority, scheme, requestTarget, path, query
    /// As written: percent-encoded.
    case queryParameter([UInt8])
    case field([UInt8], Form)
  }

  /// What a field's value becomes.
  enum Form: Sendable, Hashable {
    /// All its lines, joined.
    case plain
    /// `sf`: parsed, and written in the canonical form.
    case structured
    /// `key`: one member of a dictionary.
    case member([UInt8])
    /// `bs`: each line as a byte sequence.
    case binary
  }

  let name: Name
  let item: FieldItem

  public static func == (one: Component, other: Component) -> Bool { one.name == other.name }
  public func hash(into hasher: inout Hasher) { hasher.combine(name) }

  public init(_ item: FieldItem) throws(ComponentError) {
    self.item = item
    guard case .string(let text) = item.value, !text.isEmpty else { throw .malformed }
    let spelling = String(decoding: text, as: UTF8.self)
    var parameters = item.parameters
    func taken(_ key: String) -> BareItem? {
      guard let index = parameters.firstIndex(where: { $0.key == Array(key.utf8) }) else { return nil }
      return parameters.remove(at: index).value
    }
    if text[0] == 0x40 {
      switch spelling {
      case "@method": name = .method
      case "@target-uri": name = .targetURI
      case "@authority": name = .authority
      case "@scheme": name = .scheme
      case "@request-target": name = .requestTarget
      case "@path": name = .path
      case "@query": name = .query
      case "@query-param":
        guard case .string(let parameter)? = taken("name") else { throw .malformed }
        name = .queryParameter(parameter)
      default: throw .unknown(Self.text(item))
      }
    } else {
      for byte in text where !FieldParser.isTokenByte(byte) || (0x41...0x5A).contains(byte) { throw .malformed }
      let (structured, key, binary) = (taken("sf"), taken("key"), taken("bs"))
      for flag in [structured, binary] where flag != nil && flag != .boolean(true) { throw .malformed }
      switch (structured != nil, key, binary != nil) {
      case (false, nil, false): name = .field(text, .plain)
      case (true, nil, false): name = .field(text, .structured)
      case (_, .string(let member)?, false): name = .field(text, .member(member))
      case (false, nil, true): name = .field(text, .binary)
      default: throw .malformed
      }
    }
    // `tr` and `req` too: sallyport signs no trailers, and no requests of responses.
    if let unknown = parameters.first {
      throw .parameter(String(decoding: unknown.key, as: UTF8.self), of: Self.text(FieldItem(item.value)))
    }
  }

  /// Parses a word of the configuration: `@method`, `content-type`, or with parameters `@query-param;name="x"`.
  public init(parsing word: String) throws(ComponentError) {
    let bytes = Array(word.utf8)
    let text: [UInt8]
    if bytes.first == 0x22 {
      text = bytes
    } else {
      let end = bytes.firstIndex(of: 0x3B) ?? bytes.count
      text = [0x22] + bytes[..<end] + [0x22] + bytes[end...]
    }
    guard let item = try? FieldParser.item(text) else { throw .malformed }
    try self.init(item)
  }

  /// The identifier as a signature has it: `"@method"`.
  public var description: String { Self.text(item) }

  private static func text(_ item: FieldItem) -> String {
    var text: [UInt8] = []
    FieldWriter.write(item, to: &text)
    return String(decoding: text, as: UTF8.self)
  }

  public static let contentDigest = [UInt8]("content-digest".utf8)

  /// Whether a field or the query is parsed to find the value.
  var needsParsing: Bool {
    switch name {
    case .queryParameter, .field(_, .structured), .field(_, .member): true
    default: false
    }
  }

  /// The name of the field; nil for a derived component.
  public var field: [UInt8]? { if case .field(let name, _) = name { name } else { nil } }

  /// Whether the component covers a digest of the body, so that the body must match it.
  public var coversDigest: Bool {
    switch name {
    case .field(Self.contentDigest, .member(let key)): ContentDigest.Algorithm(key) != nil
    case .field(Self.contentDigest, _): true
    default: false
    }
  }
}
