package import HTTP

/// What an exchange has of requests inside sallyport: a subrequest that it waits for, and the fields that survive an
/// X-Accel-Redirect.
package final class InternalRequests {
  package struct CarriedField: Equatable {
    package var id: FieldName
    package var name: [UInt8]
    package var value: [UInt8]

    package init(id: FieldName, name: [UInt8], value: [UInt8]) {
      self.id = id
      self.name = name
      self.value = value
    }
  }

  private var isUsed = false
  private var awaited: Subrequest?
  private(set) var carried: [CarriedField] = []

  /// At the end of every exchange.
  @inline(__always)
  package func reset() { if isUsed { clear() } }

  @inline(never)
  private func clear() {
    cancel()
    isUsed = false
    if !carried.isEmpty { carried.removeAll() }
  }

  /// Gives up what is in progress, because the exchange ends or fails. As in nginx, an error page has its own type.
  package func cancel() {
    guard isUsed else { return }
    carried.removeAll { $0.id == .contentType }
    awaited.take()?.giveUp()
  }

  // MARK: Subrequests

  package func begin(_ subrequest: Subrequest) {
    isUsed = true
    awaited = subrequest
  }

  package func subrequestDidEnd() { awaited = nil }

  // MARK: X-Accel-Redirect

  /// Keeps a field for the response. A later one of the same name replaces it, except Set-Cookie.
  package func carry(_ field: CarriedField) {
    isUsed = true
    if field.id != .setCookie { carried.removeAll { $0.id == field.id } }
    carried.append(field)
  }

  /// Keeps a redirect's address for the page that `error_page` shows in its place, unless that page has one of its own: a
  /// response has one Location (RFC 9110 §10.2.2).
  package func carry(location: [UInt8]) {
    carry(CarriedField(id: .location, name: Array("Location".utf8), value: location))
  }

  /// Whether the first response has the type of a text of `return`, as in nginx. A page has its own.
  func keepsType(over type: StaticString) -> Bool {
    !carried.isEmpty && carried.contains { $0.id == .contentType } && "\(type)" == "text/plain"
  }

  /// Adds the fields that the response doesn't have itself. `present`: the names that it has.
  @inline(__always)
  package func addCarried(to outgoing: OutgoingResponseHead, except present: FieldNameSet) {
    if !carried.isEmpty { add(to: outgoing, present) }
  }

  @inline(never)
  private func add(to outgoing: OutgoingResponseHead, _ present: FieldNameSet) {
    for field in carried where field.id == .setCookie || !present.contains(field.id) {
      field.name.withUnsafeBytes { name in field.value.withUnsafeBytes { _ = outgoing.add(name, $0) } }
    }
  }
}
