import Bytes
public import HTTP

/// What signatures may cover of one request: values, without the connection that it came over.
public struct SignedMessage {
  public struct Field {
    /// In lower case.
    public var name: [UInt8]
    public var value: [UInt8]

    public init(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
      self.name = name.map { ASCII.lower($0) }
      self.value = Array(value)
    }
  }

  public var method: [UInt8]
  /// `http` or `https`.
  public var scheme: [UInt8]
  /// Lower-case host, and the port if it isn't the scheme's own (RFC 9110 §4.2.3).
  public var authority: [UInt8]
  /// The request target as sent.
  public var target: [UInt8]
  /// As sent; `/` if there was none.
  public var path: [UInt8]
  public var query: [UInt8]?
  /// In the order sent.
  public var fields: [Field]

  /// Describes a request for this target with these fields.
  public init(method: [UInt8], isTLS: Bool, authority: [UInt8], target: [UInt8], fields: [Field]) {
    self.method = method
    scheme = Array((isTLS ? "https" : "http").utf8)
    self.authority = Self.normalized(authority, isTLS: isTLS)
    self.target = target
    let question = target.firstIndex(of: 0x3F)
    path = Array(target[..<(question ?? target.count)])
    query = question.map { Array(target[($0 + 1)...]) }
    self.fields = fields
  }

  /// Describes a request as its head was parsed, and so as it was judged: by the host that chose the server block.
  public init(_ head: RequestHead, isTLS: Bool) {
    let bytes = head.bytes.readable
    method = Array(bytes[head.methodRange])
    scheme = Array((isTLS ? "https" : "http").utf8)
    var authority = Array(bytes[head.host])
    if let port = head.port { authority += Array(":\(port)".utf8) }
    self.authority = Self.normalized(authority, isTLS: isTLS)
    target = Array(bytes[head.target.raw])
    path = head.target.path.isEmpty ? [0x2F] : Array(bytes[head.target.path])
    query = head.target.query.map { Array(bytes[$0]) }
    fields = head.fields.map { Field(bytes[$0.name], bytes[$0.value]) }
  }

  /// Replaces the host and port.
  public mutating func setAuthority(_ authority: [UInt8], isTLS: Bool) {
    self.authority = Self.normalized(authority, isTLS: isTLS)
  }

  private static func normalized(_ authority: [UInt8], isTLS: Bool) -> [UInt8] {
    let lower = authority.map { ASCII.lower($0) }
    for ending in isTLS ? [":443", ":"] : [":80", ":"] where lower.count > ending.utf8.count {
      if lower.suffix(ending.utf8.count).elementsEqual(ending.utf8) { return Array(lower.dropLast(ending.utf8.count)) }
    }
    return lower
  }

  /// The values of all fields of this name, in their order.
  public func values(of name: [UInt8]) -> [[UInt8]] { fields.filter { $0.name == name }.map(\.value) }

  /// Replaces the fields of this name by one of the proxy's own, or by none.
  public mutating func replace(_ name: [UInt8], by value: [UInt8]?) {
    fields.removeAll { $0.name == name }
    if let value {
      name.withUnsafeBytes { name in value.withUnsafeBytes { fields.append(Field(name, $0)) } }
    }
  }

  // MARK: Components

  private static let cookie = Array("cookie".utf8)

  /// The value of a component, which has only ASCII without control characters.
  func value(of component: Component) throws(ComponentError) -> [UInt8] {
    let value = try rawValue(of: component)
    for byte in value where byte >= 0x7F || byte < 0x20 && byte != 0x09 { throw .value(component.description) }
    return value
  }

  private func rawValue(of component: Component) throws(ComponentError) -> [UInt8] {
    switch component.name {
    case .method: return method
    case .targetURI:
      guard !authority.isEmpty else { throw .absent(component.description) }
      return scheme + Array("://".utf8) + authority + path + (query.map { [0x3F] + $0 } ?? [])
    case .authority:
      guard !authority.isEmpty else { throw .absent(component.description) }
      return authority
    case .scheme: return scheme
    case .requestTarget: return target
    case .path: return path
    case .query: return [0x3F] + (query ?? [])
    case .queryParameter(let name): return try parameter(name, component)
    case .field(let name, let form): return try fieldValue(name, form, component)
    }
  }

  private func fieldValue(
    _ name: [UInt8], _ form: Component.Form, _ component: Component
  ) throws(ComponentError) -> [UInt8] {
    let lines = values(of: name)
    guard !lines.isEmpty else { throw .absent(component.description) }
    if form == .binary {
      return Array(lines.map { ":\(Base64.encode($0)):" }.joined(separator: ", ").utf8)
    }
    let value = Array(lines.joined(separator: name == Self.cookie ? [0x3B, 0x20] : [0x2C, 0x20]))
    switch form {
    case .plain, .binary: return value
    case .structured:
      guard let text = KnownStructure(name)?.canonical(value) else { throw .value(component.description) }
      return text
    case .member(let key):
      guard let entries = try? FieldParser.dictionary(value) else { throw .value(component.description) }
      guard let entry = entries.first(where: { $0.key == key }) else { throw .absent(component.description) }
      var text: [UInt8] = []
      FieldWriter.write(entry.member, to: &text)
      return text
    }
  }

  /// RFC 9421 §2.2.8: the name and the value are decoded and encoded anew, so that there is one spelling.
  private func parameter(_ name: [UInt8], _ component: Component) throws(ComponentError) -> [UInt8] {
    var found: [UInt8]?
    for pair in (query ?? []).split(separator: 0x26) {
      let parts = pair.split(separator: 0x3D, maxSplits: 1, omittingEmptySubsequences: false)
      guard FormText.normalized(parts[0]) == name else { continue }
      guard found == nil else { throw .repeated(component.description) }
      found = parts.count > 1 ? FormText.normalized(parts[1]) : []
    }
    guard let found else { throw .absent(component.description) }
    return found
  }
}

/// Text of `application/x-www-form-urlencoded`.
private enum FormText {
  static func normalized(_ text: ArraySlice<UInt8>) -> [UInt8] {
    var output: [UInt8] = []
    var at = text.startIndex
    while at < text.endIndex {
      var byte = text[at]
      at += 1
      if byte == 0x2B { byte = 0x20 }
      if byte == 0x25, at + 1 < text.endIndex, let high = ASCII.hexValue(text[at]),
        let low = ASCII.hexValue(text[at + 1])
      {
        byte = high << 4 | low
        at += 2
      }
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2A, 0x2D, 0x2E, 0x5F: output.append(byte)
      default: output += [0x25] + Array(Hex.encode([byte], .upper).utf8)
      }
    }
    return output
  }
}

/// The fields whose structure sallyport knows, for the parameter `sf`.
private enum KnownStructure {
  case dictionary, list, item

  init?(_ name: [UInt8]) {
    switch String(decoding: name, as: UTF8.self) {
    case "signature", "signature-input", "accept-signature", "content-digest", "repr-digest", "want-content-digest",
      "want-repr-digest", "priority", "cdn-cache-control":
      self = .dictionary
    case "accept-ch", "cache-status", "proxy-status", "client-cert-chain": self = .list
    case "client-cert": self = .item
    default: return nil
    }
  }

  func canonical(_ value: [UInt8]) -> [UInt8]? {
    var text: [UInt8] = []
    switch self {
    case .dictionary:
      guard let entries = try? FieldParser.dictionary(value) else { return nil }
      FieldWriter.write(entries, to: &text)
    case .list:
      guard let members = try? FieldParser.list(value) else { return nil }
      FieldWriter.write(members, to: &text)
    case .item:
      guard let item = try? FieldParser.item(value) else { return nil }
      FieldWriter.write(item, to: &text)
    }
    return text
  }
}
