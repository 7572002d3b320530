import Bytes
package import HTTP
package import Traffic

/// All fields that `proxy_set_header` sets, as one program: constant ones that follow each other are one run of text.
package struct LiveFieldBlock {
  private enum Step {
    /// An index into `constants`.
    case constant(Int)
    case begin(name: ByteRange)
    case value(CompiledTemplate.Step)
    /// The field is left out when its value is empty (nginx). `next`: the step that follows a field that goes out.
    case end(Kind, next: Int)
  }

  /// What is done with a value before it goes out.
  private enum Kind {
    case ordinary
    /// Connection with variables: a client must not choose which fields the next hop removes.
    case connection
    case upgrade(isConstant: Bool)

    init(_ name: [UInt8], isConstant: Bool) {
      switch name.withUnsafeBytes({ FieldName.known($0) }) {
      case .upgrade: self = .upgrade(isConstant: isConstant)
      case .connection where !isConstant: self = .connection
      default: self = .ordinary
      }
    }
  }

  private var steps: [Step] = []
  /// The first step that no earlier one leaps over. What only some requests run takes no constant of the next field.
  private var always = 0
  private var constants: [FieldBlock] = []
  private var text: [UInt8] = []
  private var features: [TransactionReader] = []
  private var others: [Variable] = []

  /// Adds a field. Of these values, the first that isn't empty for a request goes out.
  package mutating func add(_ name: [UInt8], _ values: [Template]) {
    let first = steps.count
    for value in values {
      add(name, value)
      if value.hasLiteral { break }
    }
    for index in first..<steps.count {
      if case .end(let kind, _) = steps[index] { steps[index] = .end(kind, next: steps.count) }
    }
    if values.count > 1 { always = steps.count }
  }

  private mutating func add(_ name: [UInt8], _ value: Template) {
    let kind = Kind(name, isConstant: value.constant != nil)
    if case .ordinary = kind, let constant = value.constant {
      if !constant.isEmpty { addConstant(name, constant) }
      return
    }
    let prefix = name + [0x3A, 0x20]
    steps.append(.begin(name: ByteRange(start: text.count, count: prefix.count)))
    text += prefix
    for part in value.parts {
      steps.append(.value(CompiledTemplate.step(part, text: &text, features: &features, others: &others)))
    }
    steps.append(.end(kind, next: steps.count + 1))
  }

  private mutating func addConstant(_ name: [UInt8], _ value: [UInt8]) {
    // The parser takes no name that is no token, and no control character in a value.
    if steps.count > always, case .constant(let last) = steps.last {
      constants[last] = FieldBlock([(name, value)], after: constants[last])
    } else {
      steps.append(.constant(constants.count))
      constants.append(FieldBlock([(name, value)]))
    }
  }

  /// Adds the fields for an exchange.
  package func add(to outgoing: OutgoingRequestHead, for exchange: Exchange) {
    var index = 0
    while index < steps.count {
      let step = steps[index]
      index += 1
      switch step {
      case .constant(let place): borrowing(constants[place]) { outgoing.add($0) }
      case .begin(let name): text.withUnsafeBytes { outgoing.beginField($0[name]) }
      case .value(.literal(let range)): outgoing.value.append(text, range)
      case .value(.connection(let variable, let place)):
        exchange.append(ofConnection: variable, place: place, to: &outgoing.value)
      case .value(.client(let variable, let place)):
        exchange.appendClient(variable, place: place, to: &outgoing.value)
      case .value(.simple(let variable)), .value(.plain(let variable)):
        exchange.append(own: variable, to: &outgoing.value)
      case .value(.feature(let index)): exchange.append(features[index], to: &outgoing.value)
      case .value(.other(let index)): exchange.append(others[index], to: &outgoing.value)
      case .end(let kind, let next): if Self.end(kind, outgoing, exchange) { index = next }
      }
    }
  }

  /// Ends a field. It removes parts of the value that must not be forwarded. Returns false if the value is empty, and
  /// drops the field.
  private static func end(_ kind: Kind, _ outgoing: OutgoingRequestHead, _ exchange: Exchange) -> Bool {
    let start = outgoing.valueStart
    switch kind {
    case .ordinary: break
    case .connection: HopByHopValue.keepConnectionOptions(in: &outgoing.value, from: start)
    case .upgrade(let isConstant):
      // RFC 9110 §7.8: an Upgrade of HTTP/1.0 counts as none.
      if exchange.head.version == .http10 { outgoing.value.truncate(to: start) }
      if !isConstant { HopByHopValue.removeTunnellingProtocols(in: &outgoing.value, from: start) }
      if outgoing.value.count > start { outgoing.upgrade = Array(outgoing.value.readable[start...]) }
    }
    guard outgoing.value.count > start else {
      outgoing.dropField()
      return false
    }
    FieldValue.makeValid(&outgoing.value, from: start)
    outgoing.endField()
    return true
  }
}

extension UpstreamPass {
  /// A template with what is known of the target put in: most requests carry nothing else than `Host: $proxy_host`.
  package func resolved(_ template: Template) -> Template {
    guard case .group = target.upstream else { return template }
    var parts: [Template.Part] = []
    for part in template.parts {
      var text: [UInt8]
      switch part {
      case .literal(let bytes): text = bytes
      case .variable(.simple(.proxy_host)): text = Array(target.host.utf8)
      case .variable(.simple(.proxy_port)): text = Array(target.port.utf8)
      case .variable:
        parts.append(part)
        continue
      }
      if case .literal(let before) = parts.last {
        parts.removeLast()
        text = before + text
      }
      if !text.isEmpty { parts.append(.literal(text)) }
    }
    return Template(parts)
  }
}
