// swift-tools-version: 6.2
import Glibc
import PackageDescription

// The modules. Each row is a module, the modules that it may import, and why it exists.
// Rows stand in the order of the layers: a module imports only modules of earlier rows, and the
// build refuses an import that is not declared here (--explicit-target-dependency-import-check).

let log = Target.Dependency.product(name: "Logging", package: "swift-log")
let heap = Target.Dependency.product(name: "HeapModule", package: "swift-collections")
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let arguments = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")

typealias ModuleRow = (module: String, uses: [String], libraries: [Target.Dependency], purpose: String)

let cLibraries = [
  "CLinux", "COpenSSL", "CSystemd", "CPCRE2", "CCrypt", "CPostgreSQL", "CNGHTTP2", "CZlib", "CAres", "CSeccomp",
]

let rows: [ModuleRow] = [
  // 1 Foundations: no protocol
  ("Bytes", [], [], "byte windows, base64, hex, secrets, tables and registries that modules share"),
  ("Observability", ["CLinux", "Bytes"], [log], "diagnostics, error log, access log"),
  ("Patterns", ["CPCRE2", "Bytes"], [], "regular expressions with a bound on their work"),
  ("Transport", ["CLinux", "Bytes"], [heap, deque], "event loop, sockets, deadlines, signals"),
  ("Files", ["CLinux"], [], "files below a folder, which no path leaves"),
  ("Compression", ["CZlib", "Bytes"], [], "gzip"),
  ("Sandbox", ["CLinux", "CSeccomp", "Observability"], [], "files and system calls that the process may use"),
  // 2 Protocols
  ("Crypto", ["COpenSSL", "Bytes", "Observability"], [], "keys, certificates, pins and anchors at rest"),
  ("Negotiation", ["Bytes"], [], "what a connection says in clear before TLS"),
  ("SPIFFE", ["Bytes", "Crypto"], [], "identities of workloads: IDs, SVIDs, and the messages of the Workload API"),
  (
    "TLS", ["COpenSSL", "Bytes", "Observability", "Transport", "Crypto", "Negotiation", "SPIFFE"], [deque],
    "a live TLS session"
  ),
  ("HTTP", ["CNGHTTP2", "Bytes"], [], "HTTP/1.1 and HTTP/2 as RFC 9110, 9112 and 9113 have them"),
  ("CGI", ["Bytes", "HTTP"], [], "what FastCGI, SCGI and uwsgi servers are told of a request, and what they reply"),
  ("DNS", ["CAres", "Bytes", "Transport"], [], "names asked of DNS servers, beside the event loop's other work"),
  ("Redis", ["Bytes"], [], "what is said to a Redis or Valkey server, and what it replies"),
  ("PostgreSQL", ["CPostgreSQL"], [], "sessions with a database, by libpq, which is loaded when one is needed"),
  ("JSON", ["Bytes"], [], "the members of one object, read byte for byte"),
  ("Language", ["Observability"], [], "nginx's language: statements, files, levels, the rows of directives"),
  ("Systemd", ["CSystemd", "Observability"], [log], "readiness, socket activation, credentials, journal"),
  // 3 Policy: values in, values out
  (
    "Identity", ["Bytes", "Observability", "Patterns", "Crypto", "TLS"], [],
    "who a client is: what rules decide on it, and what upstreams are told"
  ),
  ("Envelope", ["Bytes", "Crypto", "JSON"], [deque], "messages sealed inside TLS: opened and sealed, no socket"),
  (
    "Signature", ["Bytes", "Crypto", "HTTP", "JSON"], [],
    "requests signed in a header, and tokens of clients: verified and signed, no socket"
  ),
  (
    "UpstreamAuth", ["Bytes", "Observability", "Patterns", "Transport", "Crypto", "Identity"], [],
    "how an upstream's challenge is answered: Basic, Digest, NTLM"
  ),
  (
    "Enrolment", ["CCrypt", "Bytes", "Observability", "Crypto", "JSON", "PostgreSQL"], [],
    "the local authority, and how a device gets its certificate"
  ),
  (
    "ACME", ["Bytes", "Observability", "Transport", "Crypto", "TLS", "HTTP", "JSON"], [],
    "how a server gets its certificates from a CA by itself"
  ),
  ("Audit", ["Bytes", "Observability", "Crypto", "JSON"], [], "the chain of an audit log: its lines, and their check"),
  // 4 Traffic
  (
    "Upstream", ["Bytes", "Observability", "Transport", "Crypto", "TLS", "HTTP", "DNS", "Negotiation"], [deque],
    "the outgoing half: groups, balance, pools"
  ),
  (
    "Traffic",
    [
      "Bytes", "Observability", "Patterns", "Transport", "Crypto", "Negotiation", "SPIFFE", "TLS", "HTTP", "Language",
      "Identity", "Envelope", "Signature", "UpstreamAuth", "Enrolment", "ACME", "Upstream",
    ], [deque], "the way of a connection and a request, and the slots on which features hang"
  ),
  (
    "Forward",
    [
      "Bytes", "Observability", "Transport", "Crypto", "Negotiation", "TLS", "HTTP", "DNS", "Language", "Identity",
      "Signature", "Upstream", "Traffic",
    ], [], "how a request or a session gets to an upstream, and the hooks on that way"
  ),
  (
    "Features",
    [
      "Bytes", "Observability", "Patterns", "Transport", "Files", "Compression", "Crypto", "TLS", "HTTP", "CGI",
      "Language",
      "DNS", "Negotiation", "SPIFFE", "Redis", "JSON", "Identity", "Envelope", "Signature", "UpstreamAuth", "Enrolment",
      "ACME", "Audit", "Upstream", "Traffic", "Forward",
    ], [deque], "a folder for each feature: its directives and what they do"
  ),
  // 5 Assembly
  (
    "Configuration",
    ["Observability", "Transport", "Negotiation", "Language", "Traffic", "Forward", "Features"], [],
    "nginx's language, parsed into immutable settings"
  ),
  (
    "Conversion", ["Observability", "Language", "Configuration"], [],
    "configurations of other proxies, as ours: text in, text and notes out"
  ),
  (
    "Loading",
    [
      "CLinux", "Bytes", "Observability", "Transport", "Sandbox", "Crypto", "SPIFFE", "TLS", "Language", "Enrolment",
      "UpstreamAuth", "ACME", "Upstream", "Traffic", "Forward", "Features", "Configuration",
    ], [], "a configuration with its files, keys and names: what is needed to serve it"
  ),
  (
    "Review",
    [
      "Bytes", "Observability", "Patterns", "Transport", "Sandbox", "Crypto", "Negotiation", "SPIFFE", "TLS",
      "Language",
      "Identity", "Enrolment", "ACME", "Upstream", "Traffic", "Forward", "Features", "Configuration", "Loading",
    ], [log], "what is told of a configuration without serving it"
  ),
  (
    "Daemon",
    [
      "CLinux", "Bytes", "Observability", "Transport", "Compression", "Sandbox", "Crypto", "Negotiation",
      "SPIFFE", "TLS", "HTTP", "JSON", "Language", "Systemd", "UpstreamAuth", "Enrolment", "ACME",
      "Upstream", "Traffic", "Forward", "Features", "Configuration", "Loading",
    ], [], "one configuration brought to life, reloaded, drained and ended"
  ),
]

var declared = Set(cLibraries)
for row in rows {
  for use in row.uses where !declared.contains(use) {
    fatalError("\(row.module) may not use \(use): its row does not stand before")
  }
  declared.insert(row.module)
}

let settings: [SwiftSetting] =
  [
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("ExistentialAny"),
    // A tenth of all user instructions went into checks of class properties that one loop touches. Debug builds, and so
    // the test suite and its sanitizer runs, keep them: docs/decisions/0005-exclusivity.md.
    .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release)),
    // Tests/run asks for it. A newer compiler, which warns of more, must not keep anybody from building.
  ] + (Context.environment["SALLYPORT_STRICT"] != nil ? [.treatAllWarnings(as: .error)] : [])

// What runs once, for a start, a reload, a command or a new certificate, costs the compiler's optimiser a third of a release
// build, and nobody waits for it: docs/decisions/0060-what-is-not-optimised.md. What each connection or each request runs
// may not be in these modules.
let once: Set = ["Enrolment", "ACME", "Conversion", "Review", "Daemon", "sallyport"]

func settings(of module: String) -> [SwiftSetting] {
  settings + (once.contains(module) ? [.unsafeFlags(["-Onone"], .when(configuration: .release))] : [])
}

func named(_ modules: [String]) -> [Target.Dependency] { modules.map { .byName(name: $0) } }

let everyModule = rows.map(\.module)
var targets: [Target] = [
  .target(name: "CLinux", path: "Sources/C/Linux"),
  .systemLibrary(
    name: "COpenSSL", path: "Sources/C/OpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
  .systemLibrary(
    name: "CSystemd", path: "Sources/C/Systemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
  .systemLibrary(name: "CPostgreSQL", path: "Sources/C/PostgreSQL", providers: [.apt(["libpq-dev"])]),
  .systemLibrary(name: "CCrypt", path: "Sources/C/Crypt", providers: [.apt(["libcrypt-dev"])]),
  .systemLibrary(
    name: "CPCRE2", path: "Sources/C/PCRE2", pkgConfig: "libpcre2-8", providers: [.apt(["libpcre2-dev"])]),
  .systemLibrary(
    name: "CNGHTTP2", path: "Sources/C/NGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
  .systemLibrary(
    name: "CAres", path: "Sources/C/Ares", pkgConfig: "libcares", providers: [.apt(["libc-ares-dev"])]),
  .systemLibrary(
    name: "CSeccomp", path: "Sources/C/Seccomp", pkgConfig: "libseccomp", providers: [.apt(["libseccomp-dev"])]),
  .systemLibrary(name: "CZlib", path: "Sources/C/Zlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
]
for row in rows {
  targets.append(
    .target(
      name: row.module, dependencies: named(row.uses) + row.libraries, swiftSettings: settings(of: row.module)))
}
targets.append(
  .executableTarget(
    name: "sallyport",
    dependencies: named([
      "CLinux", "Bytes", "Observability", "Crypto", "TLS", "HTTP", "Language", "Transport", "Negotiation", "Envelope",
      "Signature", "Enrolment", "ACME", "Audit",
      "Configuration", "Conversion", "Loading", "Review", "Daemon",
    ])
      + [arguments], swiftSettings: settings(of: "sallyport")))

// Tests: a suite beside each module that has one, a module of shared test parts, and the end-to-end suite.
let testSuites = everyModule.filter { Context.packageDirectoryHolds("Tests/\($0)Tests") }
targets.append(
  .target(
    name: "TestSupport", dependencies: named(["CLinux", "Bytes", "Crypto"]), path: "Tests/TestSupport",
    swiftSettings: settings))
// What fuzz targets share with each other, and with tests of the same parsers.
if Context.packageDirectoryHolds("Tests/FuzzSupport") {
  targets.append(
    .target(
      name: "FuzzSupport", dependencies: named(["Bytes", "HTTP", "CGI"]), path: "Tests/FuzzSupport",
      swiftSettings: settings))
}
// What holds of every certificate that anybody may show: the fuzzer asks for it, and a test of what the fuzzer found.
if Context.packageDirectoryHolds("Tests/CertificateFacts") {
  targets.append(
    .target(
      name: "CertificateFacts",
      dependencies: named([
        "Bytes", "Observability", "Patterns", "Transport", "Crypto", "TLS", "Identity", "Traffic", "Forward",
        "Features", "Loading", "Review",
      ]),
      path: "Tests/CertificateFacts", swiftSettings: settings))
}
// Configurations of tests in memory: those of several modules load them.
if Context.packageDirectoryHolds("Tests/ConfigurationSupport") {
  targets.append(
    .target(
      name: "ConfigurationSupport",
      dependencies: named([
        "Observability", "Language", "Traffic", "Forward", "Features", "Configuration", "TestSupport",
      ]),
      path: "Tests/ConfigurationSupport", swiftSettings: settings))
}
let supported: [String: [String]] = [
  "CGI": ["FuzzSupport"],
  "Loading": ["ConfigurationSupport"], "Review": ["CertificateFacts", "ConfigurationSupport"],
  "Daemon": ["ConfigurationSupport"], "Language": ["ConfigurationSupport"],
  "Traffic": ["ConfigurationSupport"], "Forward": ["ConfigurationSupport"], "Features": ["ConfigurationSupport"],
  "Configuration": ["ConfigurationSupport"], "Conversion": ["ConfigurationSupport"],
]
// A program that does one thing inside the sandbox: SandboxTests runs it.
if Context.packageDirectoryHolds("Tests/SandboxTrial") {
  targets.append(.target(name: "CTrial", path: "Tests/SandboxTrialC"))
  targets.append(
    .executableTarget(
      name: "SandboxTrial", dependencies: named(["CLinux", "CTrial", "Sandbox"]), path: "Tests/SandboxTrial",
      swiftSettings: settings))
}
for suite in testSuites {
  targets.append(
    .testTarget(
      name: "\(suite)Tests",
      dependencies: named(everyModule + ["TestSupport"] + (supported[suite] ?? [])),
      path: "Tests/\(suite)Tests",
      swiftSettings: settings))
}
for suite in ["EndToEndTests", "HouseTests"] where Context.packageDirectoryHolds("Tests/\(suite)") {
  targets.append(
    .testTarget(
      name: suite, dependencies: named(everyModule + ["TestSupport"]), path: "Tests/\(suite)",
      swiftSettings: settings))
}

// Fuzz targets need clang's fuzzer runtime and a build of their own: SALLYPORT_FUZZ=1 (see Tests/fuzz).
if Context.environment["SALLYPORT_FUZZ"] != nil {
  for (name, uses) in [
    ("FuzzRequestHead", ["HTTP", "Bytes"]), ("FuzzResponseHead", ["HTTP", "Bytes"]),
    ("FuzzHTTP2Client", ["HTTP", "Bytes"]), ("FuzzHTTP2Upstream", ["HTTP", "Bytes"]),
    ("FuzzChunked", ["HTTP", "Bytes"]), ("FuzzConfiguration", ["Configuration", "Language", "Observability"]),
    ("FuzzCertificate", ["Crypto", "Bytes"]), ("FuzzCertificateFacts", ["CertificateFacts"]),
    ("FuzzServerName", ["TLS"]), ("FuzzProbeHTTP2", ["TLS"]),
    ("FuzzEnvelope", ["Envelope", "Crypto", "Bytes"]),
    ("FuzzChallenge", ["UpstreamAuth", "Crypto", "Bytes"]), ("FuzzNTLM", ["UpstreamAuth", "Bytes"]),
    ("FuzzEnrolment", ["Enrolment", "Bytes"]), ("FuzzGRPCHealth", ["Traffic", "Forward", "Features"]),
    ("FuzzInspection", ["Enrolment", "Crypto", "Bytes"]),
    ("FuzzProxyProtocol", ["Transport"]), ("FuzzDNSMessage", ["DNS", "Transport"]),
    ("FuzzFileRequest", ["HTTP", "Files"]), ("FuzzGunzip", ["Compression", "Bytes"]),
    ("FuzzSignature", ["Signature", "HTTP", "Crypto", "Bytes"]),
    ("FuzzToken", ["Signature", "JSON", "Crypto", "Bytes"]),
    ("FuzzNegotiation", ["Negotiation"]), ("FuzzTunnel", ["Negotiation"]),
    ("FuzzCertificateField", ["Identity", "Crypto", "Bytes"]),
    ("FuzzACME", ["ACME", "Crypto", "JSON"]), ("FuzzWorkload", ["SPIFFE"]),
    ("FuzzFastCGI", ["CGI", "Bytes"]), ("FuzzCGIHead", ["CGI", "HTTP", "Bytes"]),
    ("FuzzRedis", ["Redis", "Traffic", "Forward", "Features"]), ("FuzzSubFilter", ["Features", "Bytes"]),
    ("FuzzAudit", ["Audit"]),
    ("FuzzClientRecord", ["Features"]),
    ("FuzzAPI", ["Traffic", "Forward", "Features", "Transport", "Upstream"]),
  ] where Context.packageDirectoryHolds("Tests/Fuzz/\(name)") {
    targets.append(
      .executableTarget(
        name: name, dependencies: named(uses + ["FuzzSupport"]), path: "Tests/Fuzz/\(name)",
        exclude: ["Corpus", "Regressions"]
          + (Context.packageDirectoryHolds("Tests/Fuzz/\(name)/prepare") ? ["prepare"] : []),
        swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])],
        linkerSettings: [.unsafeFlags(["-sanitize=fuzzer"])]))
  }
}

let package = Package(
  name: "sallyport",
  products: [.executable(name: "sallyport", targets: ["sallyport"])],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", .upToNextMinor(from: "1.8.2")),
    .package(url: "https://github.com/apple/swift-log", .upToNextMinor(from: "1.16.2")),
    .package(url: "https://github.com/apple/swift-collections", .upToNextMinor(from: "1.6.0")),
  ],
  targets: targets,
  swiftLanguageModes: [.v6]
)

extension Context {
  /// Whether a folder of this name stands in the package: a module without files is no target.
  static func packageDirectoryHolds(_ path: String) -> Bool {
    access("\(packageDirectory)/\(path)", F_OK) == 0
  }
}
