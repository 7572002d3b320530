package import Traffic

/// A parameter of the requests of a pass, for a dialect that takes parameters.
package struct PassParameter: Sendable, Hashable {
  package let name: [UInt8]
  package let value: Template
  /// Whether a request for which the value is empty goes without the parameter.
  package let isLeftOutIfEmpty: Bool

  package init(name: [UInt8], value: Template, isLeftOutIfEmpty: Bool = false) {
    self.name = name
    self.value = value
    self.isLeftOutIfEmpty = isLeftOutIfEmpty
  }

  /// What a client's field would have to be called to become this parameter; nil: no field becomes it.
  package var fieldName: [UInt8]? {
    let prefix = Array("HTTP_".utf8)
    return name.count > prefix.count && name.prefix(prefix.count).map({ $0 & 0xDF }) == prefix.map { $0 & 0xDF }
      ? Array(name.dropFirst(prefix.count)) : nil
  }
}
