import Bytes

/// A template as a worker evaluates it: variables that stay the same for a connection know their place in its cache.
struct LiveTemplate {
  enum Part {
    case literal([UInt8])
    /// Computed once a connection (`ConnectionFacts`).
    case connection(SimpleVariable, place: Int)
    case variable(Variable)
  }

  /// The whole value, when no variable is in it.
  let constant: [UInt8]?
  let parts: [Part]

  init(_ template: Template) {
    constant = template.constant
    parts = template.parts.map { part in
      switch part {
      case .literal(let bytes): .literal(bytes)
      case .variable(.simple(let variable)):
        ConnectionFacts.place(of: variable).map { .connection(variable, place: $0) } ?? .variable(.simple(variable))
      case .variable(let variable): .variable(variable)
      }
    }
  }

  /// Appends the value for an exchange.
  func append(_ exchange: Exchange, to output: inout ByteBuffer) {
    if let constant { return output.append(constant) }
    for part in parts {
      switch part {
      case .literal(let bytes): output.append(bytes)
      case .connection(let variable, let place): exchange.facts.append(variable, place: place, to: &output)
      case .variable(let variable): exchange.append(variable, to: &output)
      }
    }
  }

  /// For what is not hot.
  func bytes(_ exchange: Exchange) -> [UInt8] {
    if let constant { return constant }
    var output = ByteBuffer()
    append(exchange, to: &output)
    return Array(output.readable)
  }
}
