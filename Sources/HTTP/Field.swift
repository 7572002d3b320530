public import Bytes

/// One field line of a head: places in the head's bytes, and what is known of its name.
public struct Field: Sendable, Equatable, BitwiseCopyable {
  public var name: ByteRange
  /// Without the whitespace around it; may be empty.
  public var value: ByteRange
  public var id: FieldName
  /// Meant for this connection only (RFC 9110 §7.6.1): never forwarded.
  public var isHopByHop: Bool

  @inlinable public init(name: ByteRange, value: ByteRange, id: FieldName, isHopByHop: Bool) {
    self.name = name
    self.value = value
    self.id = id
    self.isHopByHop = isHopByHop
  }
}

extension FieldName {
  /// Belongs to one connection, by RFC 9110 §7.6.1, whether or not Connection nominates it.
  public var isHopByHop: Bool { FieldNameSet.hopByHop.contains(self) }

  /// Says something of the message as a whole.
  var isNoted: Bool { FieldNameSet.noted.contains(self) }
}

extension FieldNameSet {
  // Computed, so that each is a constant where it is asked.
  static var hopByHop: FieldNameSet {
    FieldNameSet().with(.connection).with(.proxyConnection).with(.keepAlive).with(.te).with(.transferEncoding)
      .with(.upgrade)
  }

  static var noted: FieldNameSet {
    FieldNameSet().with(.host).with(.connection).with(.contentLength).with(.transferEncoding).with(.te)
      .with(.upgrade).with(.expect).with(.authorization)
  }

  /// Fields that Connection may not nominate, because the next hop would misread the message without them.
  static let neverNominated = FieldNameSet(.host, .contentLength, .transferEncoding, .authorization, .cookie)

  /// Fields that say where a message ends and how far it goes. A server that folds `Transfer_Encoding` to the same
  /// variable as `Transfer-Encoding` would read another message than the proxy did.
  static let neverAliased = hopByHop.union(FieldNameSet(.host, .contentLength, .expect, .trailer))

  /// Fields that mean nothing, or harm, after the body: framing, routing, authentication, controls and
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
  /// `ByteRange.empty`, as a constant in this module.
  static var absent: ByteRange { ByteRange(start: 0, count: 0) }
}

extension UnsafeBufferPointer<Field> {
  /// The first field of this name.
  @inlinable public func first(_ id: FieldName) -> Field? {
    for field in self where field.id == id { return field }
    return nil
  }

  /// The value of the first field of this name, letters folded.
  public func value(named name: UnsafeRawBufferPointer, in bytes: UnsafeRawBufferPointer) -> ByteRange? {
    for field in self where Int(field.name.count) == name.count && bytes[field.name].equalsIgnoringCase(name) {
      return field.value
    }
    return nil
  }

  /// The value of the first field whose name becomes `variable` when letters are folded and `-` is `_`.
  public func value(variableName variable: UnsafeRawBufferPointer, in bytes: UnsafeRawBufferPointer) -> ByteRange? {
    for field in self where Int(field.name.count) == variable.count {
      if bytes[field.name].becomesVariable(variable) { return field.value }
    }
    return nil
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
