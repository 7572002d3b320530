import Bytes

/// A bare item of a structured field (RFC 8941 §3.3).
public enum BareItem: Sendable, Hashable {
  /// At most 15 digits.
  case integer(Int64)
  /// In thousandths: at most 12 digits before the point, and 3 after it.
  case decimal(Int64)
  /// Printable ASCII.
  case string([UInt8])
  case token([UInt8])
  case bytes([UInt8])
  case boolean(Bool)
}

public struct FieldParameter: Sendable, Hashable {
  public var key: [UInt8]
  public var value: BareItem

  public init(_ key: [UInt8], _ value: BareItem) {
    self.key = key
    self.value = value
  }
}

/// A bare item with its parameters.
public struct FieldItem: Sendable, Hashable {
  public var value: BareItem
  public var parameters: [FieldParameter]

  public init(_ value: BareItem, _ parameters: [FieldParameter] = []) {
    self.value = value
    self.parameters = parameters
  }
}

/// What a list or a dictionary has at one place: an item, or an inner list.
public enum FieldMember: Sendable, Hashable {
  case item(FieldItem)
  case list([FieldItem], [FieldParameter])
}

public struct FieldEntry: Sendable, Hashable {
  public var key: [UInt8]
  public var member: FieldMember
}

// MARK: Serialization (RFC 8941 §4.1)

/// Writes structured fields in their one canonical form. A signature base has this form, whatever blanks the sender wrote.
enum FieldWriter {
  static func write(_ entries: [FieldEntry], to text: inout [UInt8]) {
    for (index, entry) in entries.enumerated() {
      if index > 0 { text += [0x2C, 0x20] }
      text += entry.key
      switch entry.member {
      case .item(let item) where item.value == .boolean(true): write(item.parameters, to: &text)
      case .item(let item):
        text.append(0x3D)
        write(item, to: &text)
      case .list(let items, let parameters):
        text.append(0x3D)
        write(items, parameters, to: &text)
      }
    }
  }

  static func write(_ members: [FieldMember], to text: inout [UInt8]) {
    for (index, member) in members.enumerated() {
      if index > 0 { text += [0x2C, 0x20] }
      write(member, to: &text)
    }
  }

  static func write(_ member: FieldMember, to text: inout [UInt8]) {
    switch member {
    case .item(let item): write(item, to: &text)
    case .list(let items, let parameters): write(items, parameters, to: &text)
    }
  }

  static func write(_ items: [FieldItem], _ parameters: [FieldParameter], to text: inout [UInt8]) {
    text.append(0x28)
    for (index, item) in items.enumerated() {
      if index > 0 { text.append(0x20) }
      write(item, to: &text)
    }
    text.append(0x29)
    write(parameters, to: &text)
  }

  static func write(_ item: FieldItem, to text: inout [UInt8]) {
    write(item.value, to: &text)
    write(item.parameters, to: &text)
  }

  static func write(_ parameters: [FieldParameter], to text: inout [UInt8]) {
    for parameter in parameters {
      text.append(0x3B)
      text += parameter.key
      if parameter.value == .boolean(true) { continue }
      text.append(0x3D)
      write(parameter.value, to: &text)
    }
  }

  static func write(_ value: BareItem, to text: inout [UInt8]) {
    switch value {
    case .integer(let number): text += Array("\(number)".utf8)
    case .decimal(let thousandths): writeDecimal(thousandths, to: &text)
    case .string(let string):
      text.append(0x22)
      for byte in string {
        if byte == 0x22 || byte == 0x5C { text.append(0x5C) }
        text.append(byte)
      }
      text.append(0x22)
    case .token(let token): text += token
    case .bytes(let bytes):
      text.append(0x3A)
      text += Array(Base64.encode(bytes).utf8)
      text.append(0x3A)
    case .boolean(let flag): text += flag ? [0x3F, 0x31] : [0x3F, 0x30]
    }
  }

  private static func writeDecimal(_ thousandths: Int64, to text: inout [UInt8]) {
    let (whole, rest) = thousandths.magnitude.quotientAndRemainder(dividingBy: 1000)
    var fraction = Array("\(rest + 1000)".utf8.dropFirst())
    while fraction.count > 1, fraction.last == 0x30 { fraction.removeLast() }
    if thousandths < 0 { text.append(0x2D) }
    text += Array("\(whole).".utf8) + fraction
  }
}
