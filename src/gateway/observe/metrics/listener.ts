import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Scrapers at a time: it is one or two, and no one else should come here. */
const CONNECTIONS_MAX = 32
/** Longest that a request may take to arrive. */
const REQUEST_MS = 10_000

export interface MetricsListener {
  readonly port: number
  close(): Promise<void>
}

/**
 * Serves `GET /metrics` on an address of its own, `GET /healthz` for probes, and 404 for everything else. Without a
 * key: whoever reaches the address may read.
 *
 * @param port 0 picks a free one
 * @throws Error when the address cannot be listened on
 */
export async function startMetricsListener(
  { host, port }: { readonly host: string; readonly port: number },
  scrape: () => Promise<string>,
): Promise<MetricsListener> {
  const server = createServer(
    { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS },
    (request, response) => {
      request.resume()
      const [path] = (request.url ?? '').split('?')
      if (request.method === 'GET' && path === '/metrics') void answerScrape(response, scrape)
      // A worker has no other port that a probe could ask.
      else if (request.method === 'GET' && path === '/healthz') response.end('ok\n')
      else response.writeHead(404, { 'content-type': 'text/plain' }).end('GET /metrics\n')
    },
  )
  server.maxConnections = CONNECTIONS_MAX
  server.listen({ host, port, exclusive: true })
  try {
    await once(server, 'listening')
  } catch (cause) {
    throw new Error(`metrics: cannot listen on ${host}:${port}`, { cause })
  }
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

async function answerScrape(response: ServerResponse, scrape: () => Promise<string>): Promise<void> {
  try {
    const text = await scrape()
    response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(text)
  } catch {
    response.writeHead(500).end()
  }
}
