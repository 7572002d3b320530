internal import Bytes

/// The conditions of a request for a representation that the proxy serves itself (RFC 9110 §13), in nginx's order and by
/// nginx's comparisons.
public struct Preconditions {
  /// How If-Modified-Since is compared (`if_modified_since`).
  public enum Comparison: Sendable, Hashable {
    /// The field counts for nothing.
    case off
    /// The very time of Last-Modified.
    case exact
    /// That time or a later one.
    case before
  }

  public enum Outcome: Sendable, Hashable {
    case proceed
    /// 304
    case notModified
    /// 412
    case failed
  }

  private let etag: [UInt8]?
  private let modified: Int64
  private let comparison: Comparison

  /// `etag`: nil for none.
  public init(etag: [UInt8]?, modified: Int64, comparison: Comparison) {
    self.etag = etag
    self.modified = modified
    self.comparison = comparison
  }

  public func judge(_ head: RequestHead) -> Outcome {
    let conditions = FieldNameSet(.ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince)
    if head.present.intersection(conditions).isEmpty { return .proceed }
    func value(_ name: FieldName) -> UnsafeRawBufferPointer? {
      head.first(name).map { head.bytes.readable[$0.value] }
    }
    if let time = value(.ifUnmodifiedSince), HTTPDate.parse(time).map({ $0 < modified }) ?? true { return .failed }
    if let tags = value(.ifMatch), !matches(tags, weakly: false) { return .failed }
    let (time, tags) = (value(.ifModifiedSince), value(.ifNoneMatch))
    guard time != nil || tags != nil else { return .proceed }
    if let time, isModified(since: time) { return .proceed }
    if let tags, !matches(tags, weakly: true) { return .proceed }
    return .notModified
  }

  /// Whether If-Range lets a Range field count. It is compared with what the response says: `add_header` may have replaced
  /// ETag and Last-Modified, and the client knows no others.
  public static func allowsRange(_ head: RequestHead, of response: OutgoingResponseHead) -> Bool {
    guard let field = head.first(.ifRange) else { return true }
    let value = head.bytes.readable[field.value]
    let isTag = value.count >= 2 && value.last == 0x22
    let name: StaticString = isTag ? "etag" : "last_modified"
    var sent = ByteBuffer()
    name.withUTF8Buffer { response.append(variableName: UnsafeRawBufferPointer($0), to: &sent) }
    if isTag { return value.elementsEqual(sent.readable) }
    guard let asked = HTTPDate.parse(value) else { return false }
    return asked == HTTPDate.parse(sent.readable)
  }

  private func isModified(since value: UnsafeRawBufferPointer) -> Bool {
    guard comparison != .off else { return true }
    guard let time = HTTPDate.parse(value) else { return true }
    return time != modified && (comparison == .exact || time < modified)
  }

  /// Whether a list of entity tags has this representation's. `weakly`: a `W/` counts for nothing.
  func matches(_ list: UnsafeRawBufferPointer, weakly: Bool) -> Bool {
    if list.elementsEqual([0x2A]) { return true }
    guard var etag else { return false }
    if weakly, etag.starts(with: [0x57, 0x2F]) { etag.removeFirst(2) }
    var rest = list[...]
    while !rest.isEmpty {
      if weakly, rest.starts(with: [0x57, 0x2F]) { rest = rest.dropFirst(2) }
      if rest.count < etag.count { return false }
      if rest.starts(with: etag) {
        let after = rest.dropFirst(etag.count).drop { $0 == 0x20 || $0 == 0x09 }
        if after.isEmpty || after.first == 0x2C { return true }
        rest = after
      }
      rest = rest.drop { $0 != 0x2C }.drop { $0 == 0x2C || $0 == 0x20 || $0 == 0x09 }
    }
    return false
  }
}
