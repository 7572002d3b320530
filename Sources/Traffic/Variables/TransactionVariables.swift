package import Bytes
import Observability
package import Transport

/// The values of variables that requests and sessions have alike. A variable without a value appends nothing, as in nginx.
extension Transaction {
  package func append(_ variable: SimpleVariable, to output: inout ByteBuffer) {
    guard let place = ConnectionFacts.place(of: variable) else { return append(own: variable, to: &output) }
    switch variable {
    case .remote_addr, .remote_port, .binary_remote_addr: appendClient(variable, place: place, to: &output)
    default: append(ofConnection: variable, place: place, to: &output)
    }
  }

  /// Appends the value of a variable that isn't of requests alone.
  func appendShared(_ variable: Variable, to output: inout ByteBuffer) {
    switch variable {
    case .simple(let simple): append(simple, to: &output)
    case .feature(let variable): append(variable.transactionReader, to: &output)
    case .proxyTLV(let kind): if let value = facts.proxyHeader?.value(of: kind) { output.append(value) }
    case .capture(let group):
      if variables.captures.indices.contains(group) { output.append(variables.captures[group]) }
    case .slot(let slot): append(slot: slot, to: &output)
    case .belowFolder(let folder, let slot): append(below: folder, slot: slot, to: &output)
    case .settable(let slot, let variable):
      if let value = variables.value(slot) { output.append(value) } else { append(variable, to: &output) }
    case .requestField, .argument, .cookie, .sentField, .upstreamField, .upstreamCookie, .sentTrailer, .upstreamTrailer,
      .escapedCapture:
      break
    }
  }

  /// Appends the value of a slot: as it is set, or computed by `map`, `geo` or `split_clients`.
  private func append(slot: Int, to output: inout ByteBuffer) {
    if let value = variables.value(slot) { return output.append(value) }
    guard isUnderWay else { return }
    let live = live
    if let variable = live.variables.indices.contains(slot) ? live.variables[slot] : nil {
      guard let value = variable.value(for: self) else {
        log(.error, "a regular expression of \"map\" gave up on this text")
        return setBroken(true)
      }
      if !variable.isVolatile { set(slot, value) }
      return output.append(value)
    }
    guard location.warnsOfUnset, let name = live.generation.http.setNames[slot] else { return }
    set(slot, [])
    log(.warn, "using uninitialized \"\(name)\" variable")
  }

  private func append(below folder: [UInt8], slot: Int, to output: inout ByteBuffer) {
    var value = ByteBuffer()
    append(slot: slot, to: &value)
    let isBelow = value.readable.starts(with: folder)
    output.append(isBelow ? Array(value.readable.dropFirst(folder.count)) : [0])
  }

  /// `status`: 0 before one is settled.
  @inline(__always)
  static func append(status: Int, to output: inout ByteBuffer) {
    if status > 0 { output.append(decimal: UInt64(status)) } else { output.append("000") }
  }

  func appendTime(_ variable: SimpleVariable, to output: inout ByteBuffer) {
    borrowing(worker.clock) { clock in
      clock.update()
      switch variable {
      case .msec: clock.appendSeconds(to: &output)
      case .time_local: output.append(clock.timeLocal)
      default: output.append(clock.timeISO8601)
      }
    }
  }

  /// Seconds with milliseconds: `0.005`.
  package static func append(milliseconds: UInt64, to output: inout ByteBuffer) {
    output.append(decimal: milliseconds / 1000)
    output.append(fraction: milliseconds)
  }
}

/// Whom the request comes from: the connection's peer, or who `set_real_ip_from` says it is.
extension Transaction {
  package var clientAddress: SocketAddress { variables.client ?? facts.peer }

  /// $remote_addr, $remote_port and $binary_remote_addr.
  @inline(__always)
  package func appendClient(_ variable: SimpleVariable, place: Int, to output: inout ByteBuffer) {
    if let client = variables.client {
      Self.append(variable, of: client, to: &output)
    } else {
      append(ofConnection: variable, place: place, to: &output)
    }
  }

  @inline(never)
  private static func append(_ variable: SimpleVariable, of client: SocketAddress, to output: inout ByteBuffer) {
    switch variable {
    case .binary_remote_addr: output.append(client.binary)
    case .remote_port: if let port = client.port, port > 0 { output.append(decimal: UInt64(port)) }
    default: output.append(string: client.host)
    }
  }
}
