import Bytes
import HTTP

/// All fields that `proxy_set_header` sets, as one program: constant ones that follow each other are one run of text.
struct LiveFieldBlock {
  private enum Step {
    /// Whole lines, or a part of a value.
    case text(ByteRange)
    case begin(name: ByteRange)
    case value(LiveTemplate.Step)
    /// The field is left out when its value is empty (nginx).
    case end(Kind)
  }

  /// What is done with a value before it goes out.
  private enum Kind {
    case ordinary
    /// Connection from variables: what a client has a say in takes no field off the message at the next hop.
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
  private var text: [UInt8] = []
  private var others: [Variable] = []

  mutating func add(name: [UInt8], value: Template) {
    let kind = Kind(name, isConstant: value.constant != nil)
    if case .ordinary = kind, let constant = value.constant {
      if !constant.isEmpty { addLine(name + [0x3A, 0x20] + constant + [0x0D, 0x0A]) }
      return
    }
    let prefix = name + [0x3A, 0x20]
    steps.append(.begin(name: ByteRange(start: text.count, count: prefix.count)))
    text += prefix
    for part in value.parts { steps.append(.value(LiveTemplate.step(part, text: &text, others: &others))) }
    steps.append(.end(kind))
  }

  private mutating func addLine(_ line: [UInt8]) {
    if case .text(let before) = steps.last {
      steps[steps.count - 1] = .text(ByteRange(start: Int(before.start), count: Int(before.count) + line.count))
    } else {
      steps.append(.text(ByteRange(start: text.count, count: line.count)))
    }
    text += line
  }

  /// Appends the lines for an exchange.
  func append(_ exchange: Exchange, to output: inout ByteBuffer) {
    var start = 0
    var valueStart = 0
    for step in steps {
      switch step {
      case .text(let range), .value(.literal(let range)): output.append(text, range)
      case .begin(let name):
        start = output.count
        output.append(text, name)
        valueStart = output.count
      case .value(.connection(let variable, let place)): exchange.facts.append(variable, place: place, to: &output)
      case .value(.simple(let variable)): exchange.append(variable, to: &output)
      case .value(.other(let index)): exchange.append(others[index], to: &output)
      case .end(let kind):
        Self.settle(kind, exchange, &output, from: valueStart)
        if output.count == valueStart {
          output.truncate(to: start)
        } else {
          Self.makeValueSafe(&output, from: valueStart)
          output.append("\r\n")
        }
      }
    }
  }

  /// Takes out of a value what may not go on.
  private static func settle(_ kind: Kind, _ exchange: Exchange, _ output: inout ByteBuffer, from valueStart: Int) {
    switch kind {
    case .ordinary: break
    case .connection: HopByHopValue.keepConnectionOptions(in: &output, from: valueStart)
    case .upgrade(let isConstant):
      // RFC 9110 §7.8: an Upgrade of HTTP/1.0 counts as none.
      if exchange.head.version == .http10 { output.truncate(to: valueStart) }
      if !isConstant { HopByHopValue.removeTunnellingProtocols(in: &output, from: valueStart) }
      if output.count > valueStart { exchange.askedForUpgrade = true }
    }
  }

  /// A value from a certificate or a request may hold what ends a line: such bytes become spaces, so that nobody
  /// writes a field of his own with his name.
  private static func makeValueSafe(_ output: inout ByteBuffer, from start: Int) {
    if HeadWriter.isValue(UnsafeRawBufferPointer(rebasing: output.readable[start...])) { return }
    let bytes = output.mutableReadable
    var index = start
    while index < bytes.count {
      if bytes[index] < 0x20 && bytes[index] != 0x09 || bytes[index] == 0x7F { bytes[index] = 0x20 }
      index += 1
    }
  }
}

extension ProxyPassSettings {
  /// A template with what is known of the target put in: most requests carry nothing else than `Host: $proxy_host`.
  func resolved(_ template: Template) -> Template {
    guard case .group = target else { return template }
    var parts: [Template.Part] = []
    for part in template.parts {
      var text: [UInt8]
      switch part {
      case .literal(let bytes): text = bytes
      case .variable(.simple(.proxy_host)): text = Array(host.utf8)
      case .variable(.simple(.proxy_port)): text = Array(port.utf8)
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
