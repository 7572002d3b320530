import Bytes
import HTTP
import Transport
import Upstream

/// The content of a location, for `sallyport check --explain`: tells what the content would do, and contacts nobody.
final class ExplainedContent: LiveContent {
  fileprivate let content: LiveContent
  fileprivate let trace: ExplainTrace

  init(_ content: LiveContent, _ trace: ExplainTrace) {
    self.content = content
    self.trace = trace
  }

  override func handler(for worker: Worker) -> ContentHandler? { ExplainedHandler(self) }
  override func takes(_ body: RequestBody) -> Bool { content.takes(body) }
}

private final class ExplainedHandler: ContentHandler {
  private let explained: ExplainedContent
  /// Knows the variables of a `proxy_pass`.
  private var proxy: UpstreamHandler?

  init(_ explained: ExplainedContent) { self.explained = explained }

  private var trace: ExplainTrace { explained.trace }

  override func start(_ exchange: Exchange) {
    trace.enter(exchange)
    if let pass = explained.content as? CompiledPass {
      return pass.settings.tcp == nil ? tell(pass, exchange) : tellConnection(pass, exchange)
    }
    if exchange.server.settings.stream != nil { return tellSession(exchange) }
    if let words = explained.content.explained(exchange)?.words {
      trace.add("content", words)
      return exchange.answer(status: 200, type: "text/plain", body: UnsafeRawBufferPointer(start: nil, count: 0))
    }
    trace.add("content", "of this location itself")
    guard let handler = explained.content.handler(for: exchange.worker) else {
      return exchange.fail(ErrorResponse(404))
    }
    handler.start(exchange)
  }

  override func recycle() {
    proxy?.recycle()
    proxy = nil
  }

  override func append(_ variable: SimpleVariable, to output: inout ByteBuffer) {
    proxy?.append(variable, to: &output)
  }

  // MARK: proxy_pass

  private func tell(_ pass: CompiledPass, _ exchange: Exchange) {
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
        return exchange.fail(error.response)
      }
    }
    trace.add(.init(label: "upstream", text: target(pass, proxy, exchange), pass: pass.settings))
    let outgoing = OutgoingRequestHead()
    guard RequestRewrite.build(outgoing, of: exchange, proxy, pass) else {
      trace.add("note", "a variable makes a request that can't be sent")
      return exchange.fail(ErrorResponse(500))
    }
    var text = ByteBuffer()
    HTTP1Encoder.request(outgoing, .http11, to: &text)
    let lines = text.readable.text.split(separator: "\r\n", omittingEmptySubsequences: true)
    for (index, line) in lines.enumerated() { trace.add(index == 0 ? "sends" : "  field", String(line)) }
    if let words = Self.words(dropped: pass.settings.request.droppedFields) { trace.add("note", words) }
    for hook in pass.requestHooks { if let note = hook.note { trace.add("note", note) } }
    trace.add("response", "that of the upstream; of a 200:")
    exchange.answer(status: 200, type: "", body: UnsafeRawBufferPointer(start: nil, count: 0))
  }

  // MARK: A session of `stream`

  private func tellConnection(_ pass: CompiledPass, _ exchange: Exchange) {
    let proxy = pass.spares.takeTCPHandler(pass)
    self.proxy = proxy
    proxy.serve(exchange)
    LocationWords(exchange, exchange.location.settings).tellRules(trace)
    if pass.group == nil {
      do throws(DynamicTarget.Refusal) { try proxy.settleTarget(exchange, pass) } catch {
        if let sentence = error.sentence { trace.add("note", sentence) }
        return exchange.fail(error.response)
      }
    }
    trace.add(.init(label: "upstream", text: target(pass, proxy, exchange), pass: pass.settings))
    exchange.endSession(.ok)
  }

  private func tellSession(_ exchange: Exchange) {
    LocationWords(exchange, exchange.location.settings).tellRules(trace)
    let told = explained.content.explained(exchange)
    trace.add("content", told?.words ?? "of this server itself")
    if exchange.variables.isBroken { return exchange.fail(ErrorResponse(500)) }
    exchange.endSession(told?.result ?? .ok)
  }

  /// The servers that the request may go to.
  private func target(_ pass: CompiledPass, _ proxy: UpstreamHandler, _ exchange: Exchange) -> String {
    let isOfStream = pass.settings.tcp != nil
    let scheme = isOfStream ? "" : "\(proxy.scheme?.rawValue ?? "")://"
    if let dynamic = proxy.dynamic, pass.targetTemplate != nil {
      guard isOfStream else { return "\(scheme)\(dynamic.text), resolved for the request" }
      let names = exchange.session.live.generation.http.slotNames
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
