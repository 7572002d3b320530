import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// deploy/kubernetes, and several machines behind a load balancer.
@Suite(.staged) struct `In a cluster` {
  /// One object of a manifest.
  private struct Manifest: Decodable {
    let kind: String
    let configuration: String?
  }

  private static let manifests = ["sidecar", "gateway"]

  /// KIND and the text of sallyport.conf for each object, after the schemas of Kubernetes have accepted all of them.
  private static let validate = #"""
    import json, sys, warnings
    warnings.simplefilter("ignore")
    import kubernetes_validate, yaml
    found = []
    for manifest in yaml.safe_load_all(open(sys.argv[1])):
        kubernetes_validate.validate(manifest, sys.argv[2], strict=True)
        found.append({"kind": manifest["kind"], "configuration": manifest.get("data", {}).get("sallyport.conf")})
    print(json.dumps(found))
    """#

  private static func objects(_ scene: Scene, _ name: String, version: String = "1.37") async throws -> [Manifest] {
    let script = try scene.write("validate.py", text: validate)
    let result = try await scene.run(
      PythonPackages.python, [script, "\(checkout)/deploy/kubernetes/\(name).yaml", version])
    guard result.status == 0 else { throw ToolFailed(description: result.everything) }
    return try JSONDecoder().decode([Manifest].self, from: Data(result.output))
  }

  /// 1.30 is the oldest version that has the pause of `preStop` by default; without it no shell could make it.
  @Test(arguments: manifests, ["1.30", "1.34", "1.37"])
  func `the manifests are valid by Kubernetes' schemas`(_ name: String, _ version: String) async throws {
    let kinds = Set(try await Self.objects(Scene.ofTest(), name, version: version).map(\.kind))
    #expect(kinds.isSuperset(of: ["ConfigMap", "Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"]))
    if name == "gateway" { #expect(kinds.contains("HorizontalPodAutoscaler")) }
  }

  @Test(arguments: manifests)
  func `the configuration of a manifest is sound`(_ name: String) async throws {
    let scene = try Scene.ofTest()
    let text = try await localConfiguration(scene, name)
    let check = try scene.check(text, name: "\(name).conf")
    #expect(check.isValid && !check.contains("warning:"), "\(check)")
  }

  private struct Facts: Decodable {
    /// The command of the probe that restarts, and PORT PATH of the one that takes the pod out of the service.
    let live: [String]
    let ready: [String]
    let annotations: [String: String]
    let labels: [String: String]
    /// NAME PORT of the container.
    let ports: [String: Int]
    /// The target ports of each service, by its name, and the names of those that only name pods.
    let services: [String: [String]]
    let headless: [String]
  }

  private static let describe = #"""
    import json, sys, yaml
    found = {"services": {}, "headless": []}
    for one in yaml.safe_load_all(open(sys.argv[1])):
        if one["kind"] == "Service":
            name = one["metadata"]["name"]
            found["services"][name] = [str(port["targetPort"]) for port in one["spec"]["ports"]]
            if one["spec"].get("clusterIP") == "None": found["headless"].append(name)
        if one["kind"] == "Deployment":
            pod = one["spec"]["template"]
            box = [c for c in pod["spec"]["containers"] if c["name"] == "sallyport"][0]
            found["live"] = box["livenessProbe"]["exec"]["command"]
            request = box["readinessProbe"]["httpGet"]
            found["ready"] = [request["port"], request["path"]]
            found["annotations"] = pod["metadata"]["annotations"]
            found["labels"] = pod["metadata"]["labels"]
            found["ports"] = {port["name"]: port["containerPort"] for port in box["ports"]}
    print(json.dumps(found))
    """#

  private static func facts(_ scene: Scene, _ name: String) async throws -> Facts {
    let script = try scene.write("describe.py", text: describe)
    let result = try await scene.run(
      PythonPackages.python, [script, "\(checkout)/deploy/kubernetes/\(name).yaml"])
    guard result.status == 0 else { throw ToolFailed(description: result.everything) }
    return try JSONDecoder().decode(Facts.self, from: Data(result.output))
  }

  /// A pod that is too busy to answer a request is no reason to restart it.
  @Test(arguments: manifests) func `readiness is a request, liveness asks the process`(_ name: String) async throws {
    let facts = try await Self.facts(Scene.ofTest(), name)
    #expect(facts.live == ["sallyport", "health", "--live"])
    #expect(facts.ready == ["metrics", "/healthz"])
  }

  @Test(arguments: manifests)
  func `Prometheus finds the metrics of each pod by a service and by the PodMonitor, and no other service has them`(
    _ name: String
  ) async throws {
    let scene = try Scene.ofTest()
    let facts = try await Self.facts(scene, name)
    #expect(facts.ports["metrics"] == 8081)
    #expect(facts.services.filter { $0.value.contains("metrics") }.map(\.key) == facts.headless)
    #expect(facts.headless.count == 1)
    let script = """
      import json, sys, yaml
      monitor, = yaml.safe_load_all(open(sys.argv[1]))
      assert (monitor["apiVersion"], monitor["kind"]) == ("monitoring.coreos.com/v1", "PodMonitor")
      rule, = monitor["spec"]["selector"]["matchExpressions"]
      assert rule["operator"] == "In" and json.loads(sys.argv[2])[rule["key"]] in rule["values"], rule
      end, = monitor["spec"]["podMetricsEndpoints"]
      assert (end["port"], end["path"]) == ("metrics", "/metrics"), end
      # The job of the alerts.
      assert {"targetLabel": "job", "replacement": "sallyport"} in end["relabelings"]
      """
    let labels = String(decoding: try JSONEncoder().encode(facts.labels), as: UTF8.self)
    try await scene.succeed(
      PythonPackages.python, "-c", script, "\(checkout)/deploy/kubernetes/monitoring.yaml", labels)
  }

  @Test(arguments: manifests)
  func `a changed configuration changes the pods' template, and the manifest has the present checksum`(
    _ name: String
  ) async throws {
    let scene = try Scene.ofTest()
    let text = try String(contentsOfFile: "\(checkout)/deploy/kubernetes/\(name).yaml", encoding: .utf8)
    func sum(_ text: String) async throws -> String {
      let file = try scene.write("copy.yaml", text: text)
      try await scene.succeed("\(checkout)/deploy/kubernetes/checksum", file)
      let found = scene.text("copy.yaml").firstMatch(of: /checksum\/config: "([0-9a-f]{64})"/)
      return String(try #require(found?.output.1))
    }
    let present = try await sum(text)
    #expect(
      try await Self.facts(scene, name).annotations == ["checksum/config": present], "run deploy/kubernetes/checksum")
    #expect(
      try await sum(text.replacing("worker_shutdown_timeout 40s", with: "worker_shutdown_timeout 41s")) != present)
    #expect(
      try await sum(text.replacing("cpu: 500m", with: "cpu: 600m").replacing("replicas: 2", with: "replicas: 3"))
        == present)
    try scene.write("other.yaml", text: "kind: Service\n")
    #expect(try await scene.run("\(checkout)/deploy/kubernetes/checksum", [scene.path("other.yaml")]).status == 1)
  }

  @Test func `the sidecar lets clients with a certificate through to the application, and its probes find it`()
    async throws
  {
    let scene = try Scene.ofTest()
    let app = try ScriptedUpstream.application(scene)
    let (https, probes) = try (scene.port(), scene.port())
    let text = try await localConfiguration(scene, "sidecar", [8443: https, 8081: probes, 3000: app.port])
    _ = try await Sallyport.start(
      scene, text.replacing("error_log stderr", with: "pid sallyport.pid; error_log stderr"))
    let url = "https://localhost:\(https)/"
    let known = try await scene.curl([
      "--cacert", scene.path("ca/ca.crt"), "--cert", scene.path("alice.crt"), "--key", scene.path("alice.key"), url,
    ])
    #expect(known.status == 200 && known.text.contains("x-client-dn: CN=alice"), "\(known.text)")
    let stranger = try await scene.curl(["--cacert", scene.path("ca/ca.crt"), url])
    #expect(stranger.status == 400)
    let facts = try await Self.facts(scene, "sidecar")
    let alive = try await scene.run(Sallyport.binary(), Array(facts.live.dropFirst()))
    #expect(alive.status == 0, "\(alive.everything)")
    #expect(try await scene.curl(["http://127.0.0.1:\(probes)\(facts.ready[1])"]).status == 204)
    #expect(try await scene.page(probes, "/metrics").text.contains("sallyport_requests_total"))
    #expect(try await scene.curl(["http://127.0.0.1:\(probes)/"]).status == 404)
  }

  /// The kubelet writes a changed secret into a new folder, and exchanges the link `..data` for one to it.
  @Test func `a secret that cert-manager renews is shown without a restart, and no connection ends`() async throws {
    let scene = try Scene.ofTest(), authority = try TestAuthority()
    try scene.write("ca.pem", text: authority.root.certificate.pem)
    try scene.makeFolder("tls")
    func mount(_ version: String) throws -> CertifiedKey {
      let renewed = try authority.server()
      try scene.makeFolder("tls/..\(version)")
      let files = try scene.identity("tls/..\(version)/tls", renewed)
      rename(files.certificate, scene.path("tls/..\(version)/tls.crt"))
      try #require(symlink("..\(version)", scene.path("tls/..data_tmp")) == 0)
      try #require(rename(scene.path("tls/..data_tmp"), scene.path("tls/..data")) == 0)
      return renewed
    }
    let first = try mount("2026_1")
    for name in ["tls.crt", "tls.key"] { try #require(symlink("..data/\(name)", scene.path("tls/\(name)")) == 0) }
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost;
        ssl_certificate tls/tls.crt; ssl_certificate_key tls/tls.key; return 200 "ok\\n"; }
      """)
    func shown() async throws -> String {
      let seen = try await scene.run(
        "openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost"])
      return try await scene.run("openssl", ["x509"], input: Array(seen.text.utf8)).text
    }
    #expect(try await shown() == first.certificate.pem)
    let held = try OpenSSLClient(scene, port: port, name: "localhost").wire
    let second = try mount("2026_2")
    try FileManager.default.removeItem(atPath: scene.path("tls/..2026_1"))
    try await until("the renewed certificate") { try await shown() == second.certificate.pem }
    let text = try await offPool {
      try held.write("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      return String(decoding: try held.readToEnd(), as: UTF8.self)
    }
    #expect(text.hasSuffix("ok\n"), "\(text)")
    #expect(!daemon.errorLog.contains("[error]") && !daemon.errorLog.contains("[emerg]"))
  }

  /// The configuration of a manifest with files, names and ports of this machine.
  private func localConfiguration(_ scene: Scene, _ name: String, _ ports: [Int: UInt16] = [:]) async throws -> String {
    let text = try #require(
      try await Self.objects(scene, name).compactMap(\.configuration).first, "no ConfigMap has sallyport.conf")
    for arguments in [
      ["ca", "init", "ca"], ["ca", "issue", "ca", "--server", "localhost"], ["ca", "issue", "ca", "--client", "alice"],
    ] {
      let made = try await scene.run(Sallyport.binary(), arguments)
      #expect(made.status == 0, "\(made.everything)")
    }
    for (folder, files) in [
      ("tls", ["tls.crt": "localhost.crt", "tls.key": "localhost.key"]),
      ("clients", ["ca.crt": "ca/ca.crt", "crl.pem": "ca/crl.pem"]), ("upstream", ["upstream-ca.crt": "ca/ca.crt"]),
    ] {
      try scene.makeFolder(folder)
      for (target, source) in files { try scene.write("\(folder)/\(target)", scene.bytes(source)) }
    }
    return ports.reduce(text.replacing("/run/sallyport/", with: scene.folder + "/")) { text, port in
      text.replacing(":\(port.key)", with: ":\(port.value)").replacing(
        "listen \(port.key)", with: "listen \(port.value)")
    }
    .replacing("kube-dns.kube-system.svc.cluster.local", with: "127.0.0.1")
  }

  /// All of Tests/machines.
  @Test(
    .enabled(if: hasMachines, "SALLYPORT_TEST_MACHINES is not set, or root does not run the tests"), .lastsMinutes)
  func `two machines behind a load balancer serve while one leaves, certificates roll and pins change`() async throws {
    let result = try await Scene.ofTest().run(
      "\(checkout)/Tests/machines", [Sallyport.binary()], within: .seconds(180))
    #expect(result.status == 0, "\(result.everything)")
  }

  private static let hasMachines: Bool = {
    let environment = ProcessInfo.processInfo.environment
    return environment["SALLYPORT_TEST_MACHINES"] != nil && environment["SALLYPORT_SANITIZER"] == nil && geteuid() == 0
  }()
}
