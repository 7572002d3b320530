package import Bytes

/// A template as requests and sessions evaluate it: a program over one run of text, made once where it is evaluated. Its steps hold no
/// reference, so that going through them touches no count; variables that stay the same for a connection know their place in
/// its cache.
package struct CompiledTemplate: Sendable {
  package enum Step: Sendable {
    case literal(ByteRange)
    /// Computed once a connection (`ConnectionFacts`).
    case connection(SimpleVariable, place: Int)
    case simple(SimpleVariable)
    /// Of the request, and made of digits, letters and `, . : - + /` only, so that no log has to escape a value of it.
    case plain(SimpleVariable)
    /// Of the connection, unless `set_real_ip_from` says for the request who the client is.
    case client(SimpleVariable, place: Int)
    /// A variable of a feature: an index into `features`.
    case feature(Int)
    /// A variable with a parameter: an index into `others`.
    case other(Int)
  }

  /// The whole value, when no variable is in it.
  package let constant: [UInt8]?
  /// None if the value is constant: a `map` can have 100,000 of those, and each worker has its own.
  package let steps: [Step]
  private let text: [UInt8]
  private let features: [TransactionReader]
  private let others: [Variable]

  package init(_ template: Template) {
    constant = template.constant
    var text = constant ?? []
    var features: [TransactionReader] = []
    var others: [Variable] = []
    steps =
      constant == nil
      ? template.parts.map { Self.step($0, text: &text, features: &features, others: &others) } : []
    self.text = text
    self.features = features
    self.others = others
  }

  package static func step(
    _ part: Template.Part, text: inout [UInt8], features: inout [TransactionReader], others: inout [Variable]
  ) -> Step {
    switch part {
    case .literal(let bytes):
      defer { text += bytes }
      return .literal(ByteRange(start: text.count, count: bytes.count))
    case .variable(.simple(let variable)):
      guard let place = ConnectionFacts.place(of: variable) else {
        return variable.isPlain ? .plain(variable) : .simple(variable)
      }
      switch variable {
      case .remote_addr, .remote_port, .binary_remote_addr: return .client(variable, place: place)
      default: return .connection(variable, place: place)
      }
    case .variable(.feature(let variable)):
      features.append(variable.transactionReader)
      return .feature(features.count - 1)
    case .variable(let variable):
      others.append(variable)
      return .other(others.count - 1)
    }
  }

  /// Appends the value for an exchange.
  package func append(_ exchange: Exchange, to output: inout ByteBuffer) {
    if let constant { return output.append(constant) }
    for step in steps { value(of: step, exchange, to: &output) }
  }

  /// Appends the value for whichever of the two it is.
  package func append(_ transaction: Transaction, to output: inout ByteBuffer) {
    if let constant { return output.append(constant) }
    for step in steps { value(of: step, transaction, to: &output) }
  }

  /// Appends text of a literal step.
  @inline(__always)
  package func append(_ literal: ByteRange, to output: inout ByteBuffer) { output.append(text, literal) }

  /// Appends the value of one step. What each of the two has of its own is called directly where its type is known.
  @inline(__always)
  func value<Subject: Transaction>(of step: Step, _ subject: Subject, to output: inout ByteBuffer) {
    switch step {
    case .literal(let range): output.append(text, range)
    case .connection(let variable, let place): subject.append(ofConnection: variable, place: place, to: &output)
    case .client(let variable, let place): subject.appendClient(variable, place: place, to: &output)
    case .simple(let variable), .plain(let variable): subject.append(own: variable, to: &output)
    case .feature(let index): subject.append(features[index], to: &output)
    case .other(let index): subject.append(others[index], to: &output)
    }
  }

  /// The steps, with that of a constant value.
  package var allSteps: [Step] {
    constant.map { [.literal(ByteRange(start: 0, count: $0.count))] } ?? steps
  }

  /// For what is not hot.
  package func bytes(_ transaction: Transaction) -> [UInt8] {
    if let constant { return constant }
    var output = ByteBuffer()
    append(transaction, to: &output)
    return Array(output.readable)
  }
}

extension Template {
  /// What requests and sessions run. It is made at each call, so who is asked for each request keeps it.
  package var compiled: CompiledTemplate { CompiledTemplate(self) }
}

extension SimpleVariable {
  /// Whether every value is sallyport's own and consists of digits, letters and `, . : - + /`.
  fileprivate var isPlain: Bool {
    switch self {
    case .request_length, .request_time, .request_id, .request_completion, .status, .bytes_sent, .body_bytes_sent,
      .connection_requests, .connection_time, .msec, .time_local, .time_iso8601, .upstream_status,
      .upstream_connect_time, .upstream_header_time, .upstream_response_time, .upstream_response_length,
      .upstream_bytes_received, .upstream_bytes_sent, .upstream_ssl_result, .server_protocol:
      true
    default: false
    }
  }
}

extension ByteBuffer {
  @inline(__always)
  package mutating func append(_ text: [UInt8], _ range: ByteRange) {
    text.withUnsafeBytes { append($0[range]) }
  }
}
