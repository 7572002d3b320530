/// A small part of `kustomize build`, which no registry of packages has: what deploy/kubernetes/kustomize uses, and nothing
/// else. A field that it doesn't know is an error, so that no overlay asks for what is not tested.
package enum KustomizeScript {
  /// `python3 kustomize.py FOLDER` prints the objects as a stream of YAML.
  package static let text = #"""
    import hashlib, os, sys, yaml

    # Where an object names another object of the same build.
    def references(one):
        pod = one.get("spec", {}).get("template", {}).get("spec", {})
        for volume in pod.get("volumes", []):
            if "configMap" in volume: yield "ConfigMap", volume["configMap"], "name"
            if "secret" in volume: yield "Secret", volume["secret"], "secretName"

    def containers(one):
        pod = one.get("spec", {}).get("template", {}).get("spec", {})
        return pod.get("initContainers", []) + pod.get("containers", [])

    # Labels go where kustomize puts them: into selectors of kinds that have to have one, and into others that have labels.
    def label(one, pairs):
        one["metadata"].setdefault("labels", {}).update(pairs)
        spec = one.get("spec", {})
        if one["kind"] == "Deployment":
            spec["selector"]["matchLabels"].update(pairs)
            spec["template"]["metadata"]["labels"].update(pairs)
        if one["kind"] == "Service": spec["selector"].update(pairs)
        if one["kind"] == "PodDisruptionBudget": spec["selector"]["matchLabels"].update(pairs)
        if one["kind"] == "NetworkPolicy" and "matchLabels" in spec["podSelector"]:
            spec["podSelector"]["matchLabels"].update(pairs)

    def rename(objects, change):
        names = {(one["kind"], one["metadata"]["name"]): change(one) for one in objects}
        for one in objects:
            for kind, place, field in references(one):
                place[field] = names.get((kind, place[field]), place[field])
        for one in objects: one["metadata"]["name"] = names[one["kind"], one["metadata"]["name"]]

    def build(folder):
        said = yaml.safe_load(open(os.path.join(folder, "kustomization.yaml")))
        assert said.pop("apiVersion") == "kustomize.config.k8s.io/v1beta1" and said.pop("kind") == "Kustomization"
        objects = []
        for name in said.pop("resources"):
            path = os.path.join(folder, name)
            objects += build(path) if os.path.isdir(path) else list(yaml.safe_load_all(open(path)))
        for made in said.pop("configMapGenerator", []):
            data = {name: open(os.path.join(folder, name)).read() for name in made.pop("files")}
            digest = hashlib.sha256(repr(data).encode()).hexdigest()[:10]
            one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": made.pop("name")}, "data": data}
            assert not made, made
            objects.append(one)
            rename(objects, lambda other: other["metadata"]["name"] + ("-" + digest if other is one else ""))
        prefix = said.pop("namePrefix", "")
        originals = {id(one): one["metadata"].setdefault("annotations", {}).setdefault("original", one["metadata"]["name"])
                     for one in objects}
        for one in said.pop("replicas", []):
            found = [o for o in objects if o["kind"] == "Deployment" and originals[id(o)] == one["name"]]
            assert found, one
            for o in found: o["spec"]["replicas"] = one["count"]
        rename(objects, lambda one: prefix + one["metadata"]["name"])
        for one in said.pop("labels", []):
            pairs = one.pop("pairs")
            assert one == {"includeSelectors": True, "includeTemplates": True}, one
            for o in objects: label(o, pairs)
        for one in said.pop("images", []):
            found = [c for o in objects for c in containers(o) if c["image"] == one["name"]]
            assert found, one
            for c in found: c["image"] = one["newName"] + ":" + one["newTag"]
        namespace = said.pop("namespace", None)
        if namespace:
            for o in objects: o["metadata"]["namespace"] = namespace
        assert not said, said
        return objects

    objects = build(sys.argv[1])
    for one in objects:
        del one["metadata"]["annotations"]["original"]
        if not one["metadata"]["annotations"]: del one["metadata"]["annotations"]
    print(yaml.safe_dump_all(objects))
    """#
}
