/// A machine as compose would make it of an override: a network namespace for each container, a bridge for each network.
package enum ComposeScript {
  /// `python3 compose.py OVERRIDE BINARY FOLDER web,api,db` needs root. `api` answers over HTTP on port 8080, `db` echoes on 5432.
  package static let text = #"""
    # Starts what an override says, as compose would: a network namespace for each container, a bridge for each network, processes in
    # them. Prints one JSON object of what was seen.
    import json, os, re, socket, subprocess, sys, threading, time, yaml

    override, binary, folder = sys.argv[1:4]
    services = sys.argv[4].split(",")
    tag = "sp%d" % (os.getpid() % 10000)
    MARK = b"a-secret-in-clear"

    class Loader(yaml.SafeLoader): pass
    Loader.add_constructor("!override", lambda loader, node: loader.construct_mapping(node, deep=True))
    said = yaml.load(open(override), Loader)
    processes, sidecars, spaces, bridges, wires = [], [], {}, {}, {}

    def run(*words): subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def start(space, *words):
        process = subprocess.Popen(["ip", "netns", "exec", space, *words], stdout=open(folder + "/out", "ab"), stderr=subprocess.STDOUT)
        processes.append(process)
        return process

    def contain(name, *options):
        """The override's own command and environment, with a folder in place of the volume. Ends by TERM, which it passes on."""
        service = said["services"][name]
        sidecars.append(start(spaces[name], "env", *("%s=%s" % pair for pair in service["environment"].items()), binary, *service["command"], *options))

    def network():
        for number, name in enumerate(said["networks"]):
            bridges[name] = "%sb%d" % (tag, number)
        # The bridges are in a namespace of their own: nothing of this machine is on them.
        run("ip", "netns", "add", tag + "host"); spaces["host"] = tag + "host"
        for bridge in bridges.values():
            run("ip", "netns", "exec", tag + "host", "ip", "link", "add", bridge, "type", "bridge")
            run("ip", "netns", "exec", tag + "host", "ip", "link", "set", bridge, "up")
        for number, (name, service) in enumerate(said["services"].items()):
            if service.get("network_mode") == "none" or not service.get("networks"): continue
            space = spaces[name] = "%sn%d" % (tag, number)
            run("ip", "netns", "add", space)
            run("ip", "netns", "exec", space, "ip", "link", "set", "lo", "up")
            for index, (wire, place) in enumerate(service["networks"].items()):
                outer = wires[name, wire] = "%sv%d-%d" % (tag, number, index)
                run("ip", "link", "add", outer, "netns", tag + "host", "type", "veth", "peer", "name", "eth%d" % index, "netns", space)
                size = said["networks"][wire]["ipam"]["config"][0]["subnet"].split("/")[1]
                run("ip", "netns", "exec", space, "ip", "address", "add", place["ipv4_address"] + "/" + size, "dev", "eth%d" % index)
                run("ip", "netns", "exec", space, "ip", "link", "set", "eth%d" % index, "up")
                run("ip", "netns", "exec", tag + "host", "ip", "link", "set", outer, "master", bridges[wire], "up")

    def watch(wire):
        """Counts frames on a container's wire, and those with the mark."""
        seen = {"frames": 0, "clear": 0}
        code = ("import socket,sys\ns=socket.socket(socket.AF_PACKET,socket.SOCK_RAW,socket.ntohs(3))\ns.bind((sys.argv[1],0))\n"
                "print('ready',flush=True)\n"
                "while True:\n b=s.recv(65536)\n print(len(b), int(%r in b), flush=True)\n" % MARK)
        process = subprocess.Popen(["ip", "netns", "exec", tag + "host", sys.executable, "-c", code, wire], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        process.stdout.readline()
        def read():
            for line in process.stdout:
                seen["frames"] += 1
                seen["clear"] += int(line.split()[1])
        threading.Thread(target=read, daemon=True).start()
        return seen

    APP = ("import http.server,sys\n"
           "class H(http.server.BaseHTTPRequestHandler):\n"
           " protocol_version='HTTP/1.1'\n"
           " def do_GET(self):\n"
           "  b=(%r+' '+str(self.headers['X-Client-DN'])).encode()\n"
           "  self.send_response(200);self.send_header('Content-Length',str(len(b)));self.end_headers();self.wfile.write(b)\n"
           " def log_message(self,*a):pass\n"
           "http.server.ThreadingHTTPServer(('0.0.0.0',int(sys.argv[1])),H).serve_forever()\n" % MARK.decode())
    ECHO = ("import socket,sys,threading\n"
            "s=socket.socket();s.setsockopt(1,2,1);s.bind(('0.0.0.0',int(sys.argv[1])));s.listen()\n"
            "def f(c):\n while (b:=c.recv(4096)):c.sendall(b)\n c.close()\n"
            "while True:\n c,_=s.accept();threading.Thread(target=f,args=(c,),daemon=True).start()\n")
    # A session that goes on until the other side ends it: prints the seconds.
    HOLD = ("import socket,sys,time\ns=socket.create_connection((sys.argv[1],int(sys.argv[2])),5);s.settimeout(15)\n"
            "s.sendall(%r);print(s.recv(100).decode(),flush=True)\n"
            "t=time.time()\n"
            "try:\n s.recv(1)\nexcept OSError as e: pass\nprint(time.time()-t,flush=True)\n" % MARK)

    def curl(caller, address, name, port):
        done = subprocess.run(["ip", "netns", "exec", spaces[caller], "curl", "-q", "-sS", "--noproxy", "*", "-m", "5", "-w", "|%{http_code}",
                               "--resolve", "%s:%d:%s" % (name, port, address), "http://%s:%d/" % (name, port)], capture_output=True, text=True)
        return done.stdout or done.stderr

    try:
        # Another container on the network of the sidecars, with the token of api.
        said["services"]["thief"] = dict(said["services"]["api-sallyport"], networks={"sallyport": {"ipv4_address": "10.213.0.77"}})
        network()
        began = time.time()
        state = folder + "/authority"
        start(spaces["api"], sys.executable, "-c", APP, "8080")
        start(spaces["db"], sys.executable, "-c", ECHO, "5432")
        # The sidecars may come before who gives them their certificates.
        for name in services: contain(name + "-sallyport", "--folder", folder + "/" + name)
        contain("sallyport-identities", "--authority", state)
        address = lambda name, wire: said["services"][name]["networks"][wire]["ipv4_address"]
        web = address("web-sallyport", "sallyport-web")
        first = ""
        while time.time() - began < 60 and not first.endswith("|200"):
            first = curl("web", web, "api", 8080)
            time.sleep(0.1)
        upSeconds = time.time() - began
        mesh, inner = (watch(wires["web-sallyport", name]) for name in ("sallyport", "sallyport-web"))
        answers = [curl("web", web, "api", 8080) for _ in range(20)]
        hold = subprocess.Popen(["ip", "netns", "exec", spaces["web"], sys.executable, "-c", HOLD, web, "5432"], stdout=subprocess.PIPE, text=True)
        processes.append(hold)
        echoed = hold.stdout.readline().strip()
        other = curl("web", web, "nobody", 8080)
        direct = curl("web", address("api", "sallyport-api"), "api", 8080)
        # Whoever is on the network of the sidecars has no certificate, and finds no listener in clear.
        beside = curl("db-sallyport", address("api-sallyport", "sallyport"), "api", 8080)
        relay = curl("db-sallyport", address("web-sallyport", "sallyport"), "api", 8080)
        # Whoever has stolen a token comes too late.
        contain("thief", "--folder", folder + "/thief")
        time.sleep(2)
        thief = sorted(os.listdir(folder + "/thief"))
        counts = {"mesh": dict(mesh), "inner": dict(inner)}
        stopped = time.time()
        subprocess.run([binary, "compose", "stop", "web", "--authority", state], check=True)
        while time.time() - stopped < 20 and curl("web", web, "api", 8080).endswith("|200"): time.sleep(0.1)
        outSeconds = time.time() - stopped
        ended = float(hold.communicate(timeout=20)[0].strip() or 99)
        after = curl("web", web, "api", 8080)
        print(json.dumps({"first": first, "upSeconds": upSeconds, "answers": answers, "echoed": echoed, "other": other, "direct": direct,
                          "beside": beside, "relay": relay, "thief": thief, "counts": counts, "outSeconds": outSeconds, "endedSeconds": ended, "after": after}))
    finally:
        for process in sidecars: process.terminate()
        for process in sidecars: process.wait()
        for process in processes: process.kill()
        for process in processes: process.wait()
        for space in spaces.values(): subprocess.run(["ip", "netns", "delete", space])
    """#
}
