import Bytes
import Crypto
import Dispatch
import Features
import Forward
import Glibc
import Loading
import Observability
import TLS
import Traffic
import Transport

/// Fetches revocation lists outside the event loops, and again before they end (`ssl_crl http://…`, `ssl_crl_fetch`).
///
/// A list that came is verified and written to its file, which `FileWatcher` notices like any changed file. Whatever a
/// server sends, or doesn't: the list in use stays until it ends, and then its CA's clients are refused.
@MainActor
final class RevocationRefresh {
  private struct Turn {
    var source: FetchedSource
    var turns: FetchTurns
  }

  private let shared: SharedState
  private let record: ProcessRecord
  /// By the path of the list's file.
  private var turns: [String: Turn] = [:]
  /// Those that clients named and that no file has yet.
  private var learned: [String: FetchedSource] = [:]
  private var log: ErrorLog?

  init(_ shared: SharedState, _ record: ProcessRecord) {
    self.shared = shared
    self.record = record
    shared.points.follow { point in
      DispatchQueue.main.async { [weak self] in MainActor.assumeIsolated { self?.learn(point) } }
    }
  }

  /// Makes the folders, with mode 0700, so that they can be watched.
  func prepare(_ http: HTTPSettings, log: ErrorLog) {
    for folder in http.revocationFolders where mkdir(folder, 0o700) != 0 && errno != EEXIST {
      log.error("\(NewFile.Failure("mkdir", folder)): no revocation list can be kept (ssl_crl_cache)")
    }
  }

  /// Fetches these from now on, besides those that clients of these server blocks have named.
  func follow(_ sources: [FetchedSource], _ http: HTTPSettings, log: ErrorLog) {
    self.log = log
    var next = Dictionary(sources.map { ($0.path, $0) }, uniquingKeysWith: { first, _ in first })
    let fetches = Set(http.servers.compactMap { $0.tls?.revocationFetch })
    learned = learned.filter { next[$0.key] == nil && fetches.contains($0.value.fetch) }
    next.merge(learned) { first, _ in first }
    let now = MonotonicClock.seconds
    turns = next.reduce(into: [:]) { all, entry in
      all[entry.key] = Turn(source: entry.value, turns: turns[entry.key]?.turns ?? FetchTurns(now: now))
    }
    record.keepFetches(of: Set(next.values.map(\.url.description)))
    tellPoints()
    tick()
  }

  private func tellPoints() {
    shared.points.keep(
      turns.values.filter(\.source.isLearned).flatMap { turn in
        turn.source.signers.map { RevocationPoint(url: turn.source.url, issuer: $0, fetch: turn.source.fetch) }
      })
  }

  /// A client came whose chain verified, but for the list at this point.
  private func learn(_ point: RevocationPoint) {
    guard let folder = point.fetch.folder, let log else { return }
    let path = "\(folder)/\(FetchedList.name(point.url, isLearned: true))"
    if turns[path] == nil, turns.values.count(where: \.source.isLearned) >= RevocationPoints.limit { return }
    // The CA of that name has a new key, or another CA has its list there too.
    let held = turns[path]?.source.held ?? []
    var source = FetchedSource(
      url: point.url, file: MaterialReference(path: path, keeping: point.url.description, location: nil),
      fetch: point.fetch, isLearned: true, signers: turns[path]?.source.signers ?? [], tag: nil, held: held)
    if !source.signers.contains(point.issuer) { source.signers.append(point.issuer) }
    log.notice(
      "a verified client's certificate names the revocation list \(point.url) of \(point.issuer.subject): it is fetched"
    )
    learned[path] = source
    turns[path] = Turn(source: source, turns: FetchTurns(now: MonotonicClock.seconds))
    tick()
  }

  /// Asks for the lists whose turn it is. Call this every few seconds.
  func tick() {
    let now = MonotonicClock.seconds
    for path in turns.keys.sorted() where turns[path]?.turns.begins(at: now) == true {
      guard let source = turns[path]?.source else { continue }
      let taken = shared.pool.run(.revocationLists, for: source.url.authority) { [self] in
        let outcome = Self.fetch(source)
        DispatchQueue.main.async { MainActor.assumeIsolated { self.ended(path, source, outcome) } }
      }
      if !taken.isTaken { turns[path]?.turns.failed(at: now, chance: .random(in: 0..<1)) }
    }
  }

  // MARK: One list

  private enum Outcome: Sendable {
    case taken(RevocationList, tag: String?, freshFor: Int64?)
    case unchanged(freshFor: Int64?)
    case failed(String)
  }

  private nonisolated static func fetch(_ source: FetchedSource) -> Outcome {
    var download = ListDownload(url: source.url, tag: source.held.isEmpty ? nil : source.tag)
    if source.isLearned, source.fetch.points == .anywhere { download.admits = { !$0.isNear } }
    do throws(FetchedList.Fault) {
      switch try download.run() {
      case .unchanged(let freshFor): return .unchanged(freshFor: freshFor)
      case .body(let body, let tag, let freshFor):
        let entry = try FetchedList.judge(
          body, of: source.url, tag: tag, signers: source.signers, held: source.held, now: Int64(time(nil)))
        if source.held.contains(where: { $0.sha256 == entry.list.sha256 }), entry.tag == source.tag {
          return .unchanged(freshFor: freshFor)
        }
        do throws(NewFile.Failure) {
          try NewFile.replace(source.path, SecretBytes(Array(entry.text.utf8)), mode: 0o600, isShared: true)
        } catch { return .failed("\(error)") }
        return .taken(entry.list, tag: entry.tag, freshFor: freshFor)
      }
    } catch {
      return .failed("\(error)")
    }
  }

  private func ended(_ path: String, _ source: FetchedSource, _ outcome: Outcome) {
    guard var turn = turns[path] else { return }
    let now = MonotonicClock.seconds, clock = Int64(time(nil)), chance = Double.random(in: 0..<1)
    func left(_ lists: [RevocationList]) -> Int64? { lists.compactMap(\.nextUpdate).max().map { max(0, $0 - clock) } }
    let refresh = source.fetch.refresh
    switch outcome {
    case .taken(let list, let tag, let freshFor):
      turn.turns.succeeded(at: now, refresh: refresh, freshFor: freshFor, left: left([list]), chance: chance)
      (turn.source.held, turn.source.tag) = ([list] + turn.source.held.filter { $0.sha256 != list.sha256 }, tag)
      record.didFetch(source.url.description, .taken, listEnd: Self.end(of: turn.source.held))
      log?.notice(
        "revocation list \(source.url): taken, \(list.count) revoked by \(list.issuer), until \(list.nextUpdateText)")
      turns[path] = turn
    case .unchanged(let freshFor):
      turn.turns.succeeded(at: now, refresh: refresh, freshFor: freshFor, left: left(turn.source.held), chance: chance)
      record.didFetch(source.url.description, .unchanged, listEnd: Self.end(of: turn.source.held))
      turns[path] = turn
      log?.info("revocation list \(source.url): unchanged")
    case .failed(let reason):
      turn.turns.failed(at: now, chance: chance)
      record.didFetch(source.url.description, .failed, reason, listEnd: Self.end(of: turn.source.held))
      turns[path] = turn
      if turn.turns.isTold { tell(reason, turn, clock) }
    }
  }

  /// Seconds since 1970; nil: there is no list.
  private static func end(of lists: [RevocationList]) -> Int64? { lists.map { $0.nextUpdate ?? .max }.max() }

  private func tell(_ reason: String, _ turn: Turn, _ now: Int64) {
    let words = "revocation list \(turn.source.url) could not be fetched (\(turn.turns.failures) in a row): \(reason)"
    guard let list = turn.source.held.first(where: { !$0.isExpired(at: now) }) else {
      log?.error("\(words): clients of its CA are refused")
      return
    }
    log?.warn("\(words): the one in use is valid until \(list.nextUpdateText), then clients of its CA are refused")
  }
}
