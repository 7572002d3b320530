import Foundation
import TestSupport
import Testing

/// deploy/kubernetes/kustomize, rendered by a part of kustomize that the tests have.
@Suite(.staged) struct `The kustomize base and its overlays` {
  private static let folder = "\(checkout)/deploy/kubernetes/kustomize"

  private static let describe = #"""
    import json, sys, warnings
    warnings.simplefilter("ignore")
    import kubernetes_validate, yaml
    objects = list(yaml.safe_load_all(open(sys.argv[1])))
    for one in objects:
        for version in ("1.30", "1.37"): kubernetes_validate.validate(one, version, strict=True)
    pod = [one for one in objects if one["kind"] == "Deployment"][0]
    labels = pod["spec"]["template"]["metadata"]["labels"]
    def selects(one): return one["spec"]["selector"].get("matchLabels", one["spec"]["selector"])
    spec = pod["spec"]["template"]["spec"]
    print(json.dumps({
      "names": sorted(one["kind"] + " " + one["metadata"]["name"] for one in objects if one["kind"] != "ConfigMap"),
      "namespaces": sorted({one["metadata"]["namespace"] for one in objects}),
      "images": [c["image"] for c in spec["initContainers"] + spec["containers"]],
      "unselected": [one["kind"] for one in objects if one["kind"] in ("Service", "PodDisruptionBudget", "Deployment")
                     and not set(selects(one).items()) <= set(labels.items())],
      "isMounted": [o["metadata"]["name"] for o in objects if o["kind"] == "ConfigMap"]
                   == [v["configMap"]["name"] for v in spec["volumes"] if v["name"] == "config"],
      "restart": spec["initContainers"][0].get("restartPolicy", ""),
      "replicas": pod["spec"]["replicas"],
      "configuration": [o["data"]["sallyport.conf"] for o in objects if o["kind"] == "ConfigMap"][0],
    }))
    """#

  private struct Rendered: Decodable {
    let names: [String]
    let namespaces: [String]
    let images: [String]
    /// Kinds whose selector doesn't choose the pods.
    let unselected: [String]
    let isMounted: Bool
    let restart: String
    let replicas: Int
    let configuration: String
  }

  private func render(_ scene: Scene, _ folder: String) async throws -> Rendered {
    let script = try scene.write("kustomize.py", text: KustomizeScript.text)
    let built = try await scene.run(PythonPackages.python, [script, folder])
    try #require(built.status == 0, "\(built.everything)")
    let file = try scene.write("rendered.yaml", text: built.text)
    let described = try await scene.run(
      PythonPackages.python, [try scene.write("describe.py", text: Self.describe), file])
    try #require(described.status == 0, "\(described.everything)")
    return try JSONDecoder().decode(Rendered.self, from: Data(described.output))
  }

  @Test func `overlays are valid by Kubernetes' schemas, and differ in namespace, image and number alone`() async throws
  {
    let scene = try Scene.ofTest()
    let (staging, production) = try await (
      render(scene, "\(Self.folder)/staging"), render(scene, "\(Self.folder)/production")
    )
    for rendered in [staging, production] {
      #expect(rendered.unselected.isEmpty && rendered.isMounted && rendered.restart == "Always")
      #expect(rendered.images.allSatisfy { $0.hasPrefix("registry.example.com/") }, "\(rendered.images)")
    }
    #expect(staging.names == production.names && staging.names.allSatisfy { $0.contains(" shop-") })
    #expect(staging.namespaces == ["shop-staging"] && production.namespaces == ["shop"])
    #expect(staging.replicas == 1 && production.replicas == 3)
    // The same as the manifest whose configuration ClusterTests judge.
    let sidecar = try String(contentsOfFile: "\(checkout)/deploy/kubernetes/sidecar.yaml", encoding: .utf8)
    let lines = staging.configuration.split(separator: "\n").map { "    \($0)" }
    #expect(lines.allSatisfy { sidecar.contains($0) } && lines.count > 40)
  }

  @Test func `the name of the application stands once, and another name reaches every object`() async throws {
    let scene = try Scene.ofTest()
    let copy = scene.path("kustomize")
    try FileManager.default.copyItem(atPath: Self.folder, toPath: copy)
    let base = scene.text("kustomize/base/kustomization.yaml")
    try scene.write(
      "kustomize/base/kustomization.yaml",
      text: base.replacing("namePrefix: shop-", with: "namePrefix: desk-").replacing("name: shop}", with: "name: desk}")
    )
    let rendered = try await render(scene, "\(copy)/staging")
    #expect(rendered.names.allSatisfy { $0.contains(" desk-") } && rendered.unselected.isEmpty && rendered.isMounted)
    // A field that the tests' program doesn't know is no silent success.
    try scene.write(
      "kustomize/staging/kustomization.yaml",
      text: scene.text("kustomize/staging/kustomization.yaml") + "helmCharts: []\n")
    let script = try scene.write("kustomize.py", text: KustomizeScript.text)
    #expect(try await scene.run(PythonPackages.python, [script, "\(copy)/staging"]).status != 0)
  }
}
