import Transport

/// Reads the answer section of a message (RFC 1035 §4.1), which a stranger may have written.
///
/// c-ares has compared id and question. Only records of the asked name count, and of the names to which its CNAME
/// records lead; others could be forged along with an honest answer. Bounds: `aliasLimit` CNAME records in a row,
/// `recordLimit` records of the answer are used.
package enum DNSMessage {
  package enum RecordType: UInt16, Sendable, Hashable { case ipv4 = 1, ipv6 = 28, service = 33 }

  package enum Answer: Sendable, Hashable {
    case records(DNSRecords)
    /// The name is another name's alias, of which the message says nothing. `ttl`: that of the CNAME records.
    case alias(DNSName, ttl: UInt32)
    case failure(DNSFailure)
  }

  package static let aliasLimit = 16
  package static let recordLimit = 256

  package static func answer(in bytes: [UInt8], about name: DNSName, _ type: RecordType) -> Answer {
    var reader = Reader(bytes: bytes)
    guard let head = reader.head(), head.isResponse, head.questions == 1, let asked = reader.name(),
      asked == name.wire, reader.uint16() == type.rawValue, reader.uint16() == 1
    else { return .failure(.malformed) }
    switch head.code {
    case 0: break
    case 3: return .failure(.notFound)
    default: return .failure(.refusal(code: head.code))
    }
    guard let collected = Collected(&reader, count: head.answers, type) else { return .failure(.malformed) }
    return collected.answer(from: name)
  }

  /// The records of an answer section that can matter.
  private struct Collected {
    enum Value {
      case address(SocketAddress)
      case service(ServiceRecord)
    }
    private var aliases: [[UInt8]: (target: [UInt8], ttl: UInt32)] = [:]
    private var values: [(owner: [UInt8], value: Value, ttl: UInt32)] = []

    /// nil: the section ends before its last record.
    init?(_ reader: inout Reader, count: Int, _ type: RecordType) {
      for _ in 0..<count {
        guard let record = reader.record() else { return nil }
        guard record.isInternet else { continue }
        if record.type == 5 {
          guard let target = reader.name(at: record.data) else { return nil }
          if aliases[record.owner] == nil { aliases[record.owner] = (target, record.ttl) }
        } else if record.type == type.rawValue {
          switch reader.value(type, in: record.data) {
          case .malformed: return nil
          case .unusable: break
          case .value(let value): values.append((record.owner, value, record.ttl))
          }
        }
      }
    }

    func answer(from name: DNSName) -> Answer {
      var (owner, ttl) = (name.wire, UInt32.max)
      var steps = 0
      while let alias = aliases[owner] {
        steps += 1
        guard steps <= DNSMessage.aliasLimit else { return .failure(.malformed) }
        ttl = min(ttl, alias.ttl)
        owner = alias.target
      }
      var records = DNSRecords()
      for entry in values where entry.owner == owner {
        guard records.addresses.count + records.services.count < DNSMessage.recordLimit else { break }
        ttl = min(ttl, entry.ttl)
        switch entry.value {
        case .address(let address): records.addresses.append(address)
        case .service(let service): records.services.append(service)
        }
      }
      records.ttl = ttl
      if !records.addresses.isEmpty || !records.services.isEmpty { return .records(records) }
      guard steps > 0 else { return .failure(.notFound) }
      return Reader.text(owner).map { .alias($0, ttl: ttl) } ?? .failure(.malformed)
    }
  }

  private struct Reader {
    struct Head {
      var isResponse: Bool
      var code: UInt8
      var questions: Int
      var answers: Int
    }
    struct Record {
      var owner: [UInt8]
      var type: UInt16
      var isInternet: Bool
      var ttl: UInt32
      var data: Range<Int>
    }
    enum Field {
      case value(Collected.Value)
      /// Well-formed, and of no use: a service without a port or a host.
      case unusable
      case malformed
    }

    let bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func head() -> Head? {
      guard uint16() != nil, let flags = uint16(), let questions = uint16(), let answers = uint16(), uint16() != nil,
        uint16() != nil
      else { return nil }
      return Head(
        isResponse: flags & 0x8000 != 0, code: UInt8(flags & 15), questions: Int(questions), answers: Int(answers))
    }

    mutating func record() -> Record? {
      guard let owner = name(), let type = uint16(), let form = uint16(), let high = uint16(), let low = uint16(),
        let length = uint16(), bytes.count - position >= Int(length)
      else { return nil }
      let data = position..<(position + Int(length))
      position = data.upperBound
      // RFC 2181 §8: a TTL with the highest bit set is 0.
      let ttl = high & 0x8000 == 0 ? UInt32(high) << 16 | UInt32(low) : 0
      return Record(owner: owner, type: type, isInternet: form == 1, ttl: ttl, data: data)
    }

    func value(_ type: RecordType, in data: Range<Int>) -> Field {
      var inside = self
      inside.position = data.lowerBound
      switch type {
      case .ipv4:
        guard data.count == 4, let high = inside.uint16(), let low = inside.uint16() else { return .malformed }
        return .value(.address(.ipv4(address: UInt32(high) << 16 | UInt32(low), port: 0)))
      case .ipv6:
        guard data.count == 16, let high = inside.uint64(), let low = inside.uint64() else { return .malformed }
        return .value(.address(.ipv6(high: high, low: low, port: 0)))
      case .service:
        guard let priority = inside.uint16(), let weight = inside.uint16(), let port = inside.uint16(),
          let wire = inside.name(), inside.position == data.upperBound
        else { return .malformed }
        // RFC 2782: the target "." says that there is no such service.
        guard port != 0, let target = Self.text(wire) else { return .unusable }
        return .value(.service(ServiceRecord(priority: priority, weight: weight, port: port, target: target)))
      }
    }

    /// The name that begins there, and ends with the field.
    func name(at data: Range<Int>) -> [UInt8]? {
      var inside = self
      inside.position = data.lowerBound
      let name = inside.name()
      return inside.position == data.upperBound ? name : nil
    }

    /// The next name: labels with their lengths, in lower case and without pointers. A pointer leads backwards only,
    /// so the work is bounded by the length of the message, and by 255 bytes of the name.
    mutating func name() -> [UInt8]? {
      var name: [UInt8] = []
      var place = position
      var bound = position
      var end: Int?
      while true {
        guard place < bytes.count else { return nil }
        let length = Int(bytes[place])
        switch length {
        case 0:
          position = end ?? place + 1
          return name
        case 1...63:
          guard bytes.count - place > length, name.count + length < 254 else { return nil }
          name.append(bytes[place])
          name += bytes[(place + 1)...(place + length)].lazy.map(DNSName.lower)
          place += length + 1
        case 192...:
          guard bytes.count - place > 1 else { return nil }
          let target = (length & 63) << 8 | Int(bytes[place + 1])
          guard target < bound else { return nil }
          if end == nil { end = place + 2 }
          bound = target
          place = target
        default: return nil
        }
      }
    }

    mutating func uint16() -> UInt16? {
      guard bytes.count - position >= 2 else { return nil }
      defer { position += 2 }
      return UInt16(bytes[position]) << 8 | UInt16(bytes[position + 1])
    }

    private mutating func uint64() -> UInt64? {
      guard let a = uint16(), let b = uint16(), let c = uint16(), let d = uint16() else { return nil }
      return UInt64(a) << 48 | UInt64(b) << 32 | UInt64(c) << 16 | UInt64(d)
    }

    static func text(_ wire: [UInt8]) -> DNSName? {
      var labels: [ArraySlice<UInt8>] = []
      var rest = wire[...]
      while let length = rest.popFirst() {
        labels.append(rest.prefix(Int(length)))
        rest = rest.dropFirst(Int(length))
      }
      return DNSName(ofLabels: labels)
    }
  }
}
