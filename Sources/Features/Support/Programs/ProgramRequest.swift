import Bytes
import CGI
import Forward
import HTTP
import Observability
import Traffic

/// Makes the parameters of each request of a pass: those of the configuration, then the fields of the request.
final class ProgramRequest: RequestHook {
  private enum Step {
    /// Parameters that are the same for all requests, as the protocol sends them.
    case constant([UInt8])
    case value(name: [UInt8], CompiledTemplate, isLeftOutIfEmpty: Bool)
    /// The number of bytes that the body has, whatever the client has said; empty without a body.
    case contentLength(name: [UInt8], isLeftOutIfEmpty: Bool)
  }

  private let kind: ProgramProtocol
  /// The protocol, as messages name it.
  private let name: String
  private var steps: [Step] = []
  private var reserved = ReservedParameters()
  private var block: ParameterBlock
  private var value = ByteBuffer()

  init(_ settings: ProgramSettings, _ pass: UpstreamPass) {
    kind = settings.kind
    name = pass.dialect.name
    block = ParameterBlock(settings.kind)
    super.init()
    for parameter in settings.parameters {
      reserved.insert(parameter.name)
      add(parameter)
    }
  }

  private func add(_ parameter: PassParameter) {
    if parameter.name == Array("CONTENT_LENGTH".utf8), parameter.value.parts == [.variable(.simple(.content_length))] {
      return steps.append(.contentLength(name: parameter.name, isLeftOutIfEmpty: parameter.isLeftOutIfEmpty))
    }
    guard let constant = parameter.value.constant, let encoded = encoded(parameter.name, constant) else {
      return steps.append(
        .value(
          name: parameter.name, parameter.value.compiled, isLeftOutIfEmpty: parameter.isLeftOutIfEmpty))
    }
    if constant.isEmpty, parameter.isLeftOutIfEmpty { return }
    if case .constant(let before)? = steps.last {
      steps[steps.count - 1] = .constant(before + encoded)
    } else {
      steps.append(.constant(encoded))
    }
  }

  /// The bytes of one parameter; nil if it can't be sent, which requests then report.
  private func encoded(_ name: [UInt8], _ value: [UInt8]) -> [UInt8]? {
    var one = ParameterBlock(block.kind)
    return value.withUnsafeBytes { value in
      do throws(ParameterFault) { try add(name, value, to: &one) } catch { return nil }
      return Array(one.bytes)
    }
  }

  private func add(
    _ name: [UInt8], _ value: UnsafeRawBufferPointer, to block: inout ParameterBlock
  ) throws(ParameterFault) {
    let fault: ParameterFault? = name.withUnsafeBytes { name in
      do throws(ParameterFault) { try block.add(name, value) } catch { return error }
      return nil
    }
    if let fault { throw fault }
  }

  override func complete(_ outgoing: OutgoingRequestHead, of exchange: Exchange, isTLS: Bool) -> Bool {
    block.removeAll()
    do throws(ParameterFault) {
      for step in steps { try run(step, outgoing, exchange) }
      try block.addFields(of: outgoing, except: reserved)
    } catch {
      exchange.log(.error, "the parameters for the upstream can't be made: \(error)")
      return false
    }
    var length: UInt64 = 0
    if case .length(let count) = outgoing.framing { length = count }
    kind.appendHead(parameters: block.bytes, contentLength: length, to: &outgoing.parameters)
    // A variable that could not be computed may have been meant for a parameter that the server trusts.
    return !exchange.variables.isBroken
  }

  override func words(for outgoing: OutgoingRequestHead) -> [(label: String, text: String)] {
    [(label: "sends", text: "a request of \(name)")]
      + ParameterBlock.parameters(of: block.bytes, kind).map { name, value in
        (label: "  parameter", text: "\(LogEscape.text(name)) = \(LogEscape.text(value))")
      }
  }

  private func run(_ step: Step, _ outgoing: OutgoingRequestHead, _ exchange: Exchange) throws(ParameterFault) {
    switch step {
    case .constant(let bytes): try block.add(block: bytes)
    case .value(let name, let template, let isLeftOutIfEmpty):
      value.removeAll()
      template.append(exchange, to: &value)
      if isLeftOutIfEmpty, value.isEmpty { return }
      try add(name, value.readable, to: &block)
    case .contentLength(let name, let isLeftOutIfEmpty):
      value.removeAll()
      if case .length(let count) = outgoing.framing { value.append(decimal: count) }
      if isLeftOutIfEmpty, value.isEmpty { return }
      try add(name, value.readable, to: &block)
    }
  }
}
