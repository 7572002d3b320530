public import Bytes

/// One field line of a head: the ranges of its name and value in the head's bytes, and the recognised name.
public struct Field: Sendable, Equatable, BitwiseCopyable {
  public var name: ByteRange
  /// The value, without the whitespace around it. It may be empty.
  public var value: ByteRange
  public var id: FieldName
  /// Whether the field belongs to this connection only (RFC 9110 §7.6.1). The proxy never forwards such a field.
  public var isHopByHop: Bool

  @inlinable public init(name: ByteRange, value: ByteRange, id: FieldName, isHopByHop: Bool) {
    self.name = name
    self.value = value
    self.id = id
    self.isHopByHop = isHopByHop
  }
}

extension FieldName {
  /// Whether the field belongs to one connection by RFC 9110 §7.6.1, even if Connection does not nominate it.
  public var isHopByHop: Bool { FieldNameSet.hopByHop.contains(self) }

  /// Whether `MessageFacts` reads this field's value.
  var isNoted: Bool { FieldNameSet.noted.contains(self) }
}

extension FieldNameSet {
  // Computed properties, so that the compiler makes each set a constant at its use.
  static var hopByHop: FieldNameSet {
    FieldNameSet().with(.connection).with(.proxyConnection).with(.keepAlive).with(.te).with(.transferEncoding)
      .with(.upgrade)
  }

  static var noted: FieldNameSet {
    FieldNameSet().with(.host).with(.connection).with(.contentLength).with(.transferEncoding).with(.te)
      .with(.upgrade).with(.expect)
  }

  /// The names of which a request may have several fields: all but those of which nginx refuses a second
  /// (`ngx_http_process_unique_header_line`).
  static var repeatable: FieldNameSet {
    FieldNameSet(
      bits: ~FieldNameSet().with(.host).with(.authorization).with(.ifMatch).with(.ifNoneMatch).with(.ifModifiedSince)
        .with(.ifUnmodifiedSince).with(.ifRange).with(.contentRange).with(.expect).bits)
  }

  /// The names of which nginx forwards the first field of a response only: a second one would say something else.
  public static let singleInResponse = FieldNameSet(
    .contentType, .date, .server, .lastModified, .etag, .location, .refresh, .expires)

  /// Fields that Connection may not nominate, because the next hop would misread the message without them.
  static let neverNominated = FieldNameSet(.host, .contentLength, .transferEncoding, .authorization, .cookie)

  /// Fields that frame or route a message, or belong to one connection. A server may fold `Transfer_Encoding` to the
  /// same variable as `Transfer-Encoding`; such a server would find another end of the message than the proxy did.
  static let neverAliased = hopByHop.union(FieldNameSet(.host, .contentLength, .expect, .trailer))

  /// Fields that have no meaning, or do harm, after the body: framing, routing, authentication, controls and
  /// the content's own description (RFC 9110 §6.5.1).
  static let neverTrailer = FieldNameSet(
    .connection, .proxyConnection, .keepAlive, .te, .transferEncoding, .upgrade, .host, .contentLength, .trailer,
    .expect, .maxForwards, .cacheControl, .range, .contentRange, .contentType, .contentEncoding, .authorization,
    .proxyAuthorization, .proxyAuthenticate, .wwwAuthenticate, .authenticationInfo, .cookie, .setCookie, .location,
    .refresh, .age, .expires, .date, .vary, .forwarded, .via, .xForwardedFor, .xForwardedHost, .xForwardedProto,
    .xRealIP, .ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince, .ifRange, .xAccelRedirect,
    .xAccelBuffering, .xAccelCharset, .xAccelExpires, .xAccelLimitRate, .status)
}

extension ByteRange {
  /// An empty range, equal to `ByteRange.empty`, but a constant in this module.
  static var absent: ByteRange { ByteRange(start: 0, count: 0) }
}

extension UnsafeBufferPointer<Field> {
  /// Returns the first field of this name.
  @inlinable public func first(_ id: FieldName) -> Field? {
    for field in self where field.id == id { return field }
    return nil
  }

  /// Returns the value of the first field of this name, compared without case.
  public func value(named name: UnsafeRawBufferPointer, in bytes: UnsafeRawBufferPointer) -> ByteRange? {
    for field in self where Int(field.name.count) == name.count && bytes[field.name].equalsIgnoringCase(name) {
      return field.value
    }
    return nil
  }

  /// Appends the values of all fields whose name, with letters in lower case and `-` as `_`, equals `variable`: joined
  /// by `, ` in their order, those of Cookie by `; `, as nginx joins them for `$http_NAME` and `$upstream_http_NAME`.
  public func append(
    variableName variable: UnsafeRawBufferPointer, in bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer
  ) {
    var isFirst = true
    for field in self where Int(field.name.count) == variable.count && bytes[field.name].becomesVariable(variable) {
      if !isFirst { output.append(field.id == .cookie ? "; " : ", ") }
      isFirst = false
      output.append(bytes[field.value])
    }
  }
}

extension UnsafeRawBufferPointer {
  func becomesVariable(_ variable: UnsafeRawBufferPointer) -> Bool {
    for index in 0..<Swift.min(count, variable.count) {
      let byte = self[index] == 0x2D ? 0x5F : ASCII.lower(self[index])
      if byte != ASCII.lower(variable[index]) { return false }
    }
    return count == variable.count
  }
}
