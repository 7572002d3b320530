import Bytes
import HTTP
import Traffic
import Transport
import Upstream

/// Tells what a pass would do with a request or a session, for `sallyport check --explain`, and contacts nobody.
final class RehearsedPass: ContentHandler {
  private let pass: CompiledPass
  private let trace: ExplainTrace
  /// Knows the variables of a `proxy_pass`.
  private var proxy: UpstreamHandler?

  init(_ pass: CompiledPass, _ trace: ExplainTrace) {
    self.pass = pass
    self.trace = trace
  }

  override func recycle() {
    proxy?.recycle()
    proxy = nil
  }

  override func append(_ variable: SimpleVariable, to output: inout ByteBuffer) {
    proxy?.append(variable, to: &output)
  }

  // MARK: A request

  override func start(_ exchange: Exchange) {
    trace.enter(exchange)
    let proxy = pass.spares.takeProxyHandler(pass)
    self.proxy = proxy
    do throws(ErrorResponse) {
      for hook in pass.requestHooks { try hook.rehearse(exchange) }
    } catch {
      return exchange.fail(error)
    }
    if pass.group == nil {
      do throws(DynamicTarget.Refusal) { try proxy.settleTarget(exchange, pass) } catch {
        if let sentence = error.sentence { trace.add("note", sentence) }
        return exchange.refuse(error.cause)
      }
    }
    trace.add("upstream", target(proxy, exchange) + through, .upstream(name: name(proxy, exchange), pass.settings))
    let outgoing = OutgoingRequestHead()
    guard RequestRewrite.build(outgoing, of: exchange, proxy, pass) else {
      trace.add("note", "a variable makes a request that can't be sent")
      return exchange.fail(ErrorResponse(500))
    }
    if pass.settings.dialect.speaksHTTP { tellHead(outgoing) }
    for hook in pass.requestHooks {
      for line in hook.words(for: outgoing) { trace.add(line.label, line.text, Self.told(line.text, between: " = ")) }
    }
    if let words = Self.words(dropped: pass.settings.request.droppedFields) { trace.add("note", words) }
    for hook in pass.requestHooks { if let note = hook.note { trace.add("note", note) } }
    trace.add("response", "that of the upstream; of a 200:")
    // A client who was refused gets the status of the refusal, unless `error_page` says another.
    exchange.answer(
      status: exchange.progress.statusOverride ?? 200, type: "", body: UnsafeRawBufferPointer(start: nil, count: 0))
  }

  private func tellHead(_ outgoing: OutgoingRequestHead) {
    var text = ByteBuffer()
    HTTP1Encoder.request(outgoing, .http11, to: &text)
    let lines = text.readable.text.split(separator: "\r\n", omittingEmptySubsequences: true)
    for (index, line) in lines.enumerated() {
      let line = String(line)
      if index == 0 { trace.add("sends", line) } else { trace.add("  field", line, Self.told(line, between: ": ")) }
    }
  }

  /// The field or parameter of a line; nil: the line has none.
  private static func told(_ line: String, between separator: String) -> ExplainTrace.Fact? {
    guard let place = line.firstRange(of: separator) else { return nil }
    return .told(name: String(line[..<place.lowerBound]), value: String(line[place.upperBound...]))
  }

  // MARK: A session of `stream`

  override func start(_ session: StreamSession) {
    let proxy = pass.spares.takeTCPHandler(pass)
    self.proxy = proxy
    proxy.serve(session)
    LocationWords(session, session.location.settings).tellRules(trace)
    if pass.group == nil {
      do throws(DynamicTarget.Refusal) { try proxy.settleTarget(session, pass) } catch {
        if let sentence = error.sentence { trace.add("note", sentence) }
        return session.refuse(error.cause)
      }
    }
    trace.add("upstream", target(proxy, session) + through, .upstream(name: name(proxy, session), pass.settings))
    session.end(.ok)
  }

  private var through: String { pass.settings.origin.tunnel.map { ", through the proxy \($0.proxy)" } ?? "" }

  /// The name of the group, or of what the variables lead to.
  private func name(_ proxy: UpstreamHandler, _ transaction: Transaction) -> String {
    if let dynamic = proxy.dynamic, pass.targetTemplate != nil { return dynamic.text }
    return (pass.group ?? pass.followed?.current)?.settings.name ?? pass.settings.target.host
  }

  /// The servers that the request may go to.
  private func target(_ proxy: UpstreamHandler, _ transaction: Transaction) -> String {
    let isOfStream = pass.settings.tcp != nil
    let scheme = proxy.scheme.map { pass.settings.prefix($0) } ?? ""
    if let dynamic = proxy.dynamic, pass.targetTemplate != nil {
      guard isOfStream else { return "\(scheme)\(dynamic.text), resolved for the request" }
      let names = transaction.session.live.generation.http.slotNames
      let value = "\(pass.settings.target.upstream.template?.text(names) ?? "") is \(dynamic.text)"
      guard let group = pass.dynamicGroups.group(named: dynamic.text) else {
        return "\(value), resolved for the connection"
      }
      return "\(value): \(Self.words(group.servers))"
    }
    guard let group = pass.group ?? pass.followed?.current else { return "\(scheme)\(pass.settings.target.host)" }
    let asksDNS = group.settings.servers.contains { $0.followed != nil }
    if isOfStream, !asksDNS, group.servers.count == 1 { return group.servers[0].address.description }
    let place = "\(scheme)\(pass.settings.target.host): "
    if group.servers.isEmpty { return place + (asksDNS ? "its servers are those of DNS" : "it has no servers") }
    return place + Self.words(group.servers) + (asksDNS ? ", and those of DNS" : "")
  }

  /// Names the outer `proxy_set_header` lines without effect here; nil if there are none.
  private static func words(dropped fields: [DroppedField]) -> String? {
    guard !fields.isEmpty else { return nil }
    let names = fields.map { "\(String(decoding: $0.name, as: UTF8.self)) (\($0.location))" }
    return "the location's own proxy_set_header lines replace the outer ones, of which these have no effect here: "
      + names.joined(separator: ", ")
  }

  private static func words(_ servers: [ResolvedGroup.Server]) -> String {
    let names = servers.map { server in
      let words = [server.settings.isBackup ? "backup" : "", server.settings.isDown ? "down" : ""]
      return ([server.address.description] + words.filter { !$0.isEmpty }).joined(separator: " ")
    }
    return "one of \(names.joined(separator: ", "))"
  }
}
