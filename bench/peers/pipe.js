// The barest proxy in Node: two pipes and a keep-alive agent. No credential work, no log. pipe.js PORT UPSTREAM_PORT
"use strict";
const http = require("http");
const client = process.env.UPSTREAM_SCHEME === "https" ? require("https") : http;
const [port, upstream] = process.argv.slice(2).map(Number);
const agent = new client.Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: 128 });

const server = http.createServer((incoming, answer) => {
  const headers = { ...incoming.headers };
  delete headers.connection;
  const options = { host: "127.0.0.1", port: upstream, method: incoming.method, path: incoming.url, headers, agent };
  const outgoing = client.request(options, (reply) => {
    const passed = { ...reply.headers };
    delete passed.connection;
    delete passed["keep-alive"];
    answer.writeHead(reply.statusCode, passed);
    reply.pipe(answer);
  });
  outgoing.on("error", () => answer.destroy());
  answer.on("close", () => answer.writableFinished || outgoing.destroy());
  incoming.pipe(outgoing);
});
server.keepAliveTimeout = 600000;
server.requestTimeout = 0;
server.listen(port, "127.0.0.1", 4096);
