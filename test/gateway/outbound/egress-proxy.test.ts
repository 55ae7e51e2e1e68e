import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import t, { type Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import type { LiveFrame, SocketEnd } from '../../../src/contracts/live.ts'
import { type Clock, systemClock } from '../../../src/contracts/time.ts'
import { UpstreamFailure } from '../../../src/contracts/upstream.ts'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { createEgressProxy } from '../../../src/gateway/outbound/egress-proxy.ts'
import { createAudioFetcher } from '../../../src/gateway/outbound/fetch-audio.ts'
import { createWebhookPoster } from '../../../src/gateway/outbound/post-webhook.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { createSocketOpener } from '../../../src/gateway/outbound/web-socket.ts'
import { answerWith, fetched, headOf } from '../../support/audio-fetch.ts'
import { createAuthority } from '../../support/certificates.ts'
import { startGateway } from '../../support/gateway.ts'
import { listen } from '../../support/http-server.ts'
import { serveTls } from '../../support/tls-host.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'

const authority = createAuthority()
const trustedBefore = getCACertificates()
setDefaultCACertificates([...trustedBefore, authority.cert])
t.teardown(() => setDefaultCACertificates(trustedBefore))
const CERTIFICATE = authority.issue(['provider.example', 'hooks.example', 'localhost'])

/**
 * What a proxy does with a request to connect: the port on this machine that it leads to, a status, 0 to be silent, or
 * 1 to say that it leads somewhere and to break off.
 */
type Leads = (target: string) => number

/** A proxy that leads to this machine whatever it is asked for. */
async function serveProxy(t: Test, leads: Leads, server: Server = createServer()) {
  const asked: string[] = []
  const open = new Set<Socket>()
  server.on('connect', ({ url = '', headers }, socket: Socket) => {
    asked.push(`${url} ${headers.host} ${headers['proxy-authorization'] ?? '-'}`)
    open.add(socket.on('close', () => open.delete(socket)).on('error', () => {}))
    socket.on('end', () => socket.end()).resume()
    const port = leads(url)
    if (port === 0) return
    if (port === 1) {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      return void setImmediate(() => socket.resetAndDestroy())
    }
    if (port < 600) return void socket.end(`HTTP/1.1 ${port} No\r\nContent-Length: 0\r\n\r\n`)
    const there = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      there.pipe(socket).pipe(there)
    })
    there.on('error', () => {}).on('close', () => socket.destroySoon())
    socket.on('close', () => there.destroy())
  })
  const origin = await listen(t, server)
  t.teardown(() => {
    for (const socket of open) socket.destroy()
  })
  return { origin, asked, open }
}

async function serveProvider(t: Test, listener: RequestListener) {
  const server = createHttpsServer(CERTIFICATE, listener)
  t.teardown(() => server.closeAllConnections())
  await listen(t, server)
  return { port: (server.address() as AddressInfo).port, server }
}

function sender(t: Test, proxy: string, { no, clock = systemClock }: { no?: string; clock?: Clock } = {}) {
  const egress = createEgressProxy({ HTTPS_PROXY: proxy, NO_PROXY: no }, clock)
  const none = () => {
    throw new Error('there is no audio')
  }
  const made = createSender({ reader: { bytes: none, base64: none, range: none }, egress, clock })
  t.teardown(() => made.close())
  return async (origin: string, body = '{}', signal = new AbortController().signal): Promise<string> => {
    const request = { method: 'POST' as const, url: `${origin}/v1`, headers: {}, body: [Buffer.from(body)] }
    try {
      const reply = await made.send(request, { deadlineMs: 20_000, signal, onHeld: () => {} })
      return `${reply.status} ${Buffer.concat(reply.body)}`
    } catch (error) {
      if (!(error instanceof UpstreamFailure)) return `${error}`
      return `${error.failure.kind}: ${error.failure.reason}`
    }
  }
}

t.test('requests to providers go through one tunnel, one after the other', async (t) => {
  const heads: unknown[] = []
  const sockets = new Set<unknown>()
  const { port } = await serveProvider(t, async (req, res) => {
    sockets.add(req.socket)
    heads.push([req.headers.host, req.headers['proxy-authorization']])
    const parts: Buffer[] = []
    for await (const part of req) parts.push(part as Buffer)
    res.end(Buffer.concat(parts))
  })
  const proxy = await serveProxy(t, () => port)
  const send = sender(t, proxy.origin.replace('//', '//larkway:p%40ss@'))
  for (const size of [0, 10, 3_000_000]) {
    const body = 'x'.repeat(size)
    t.ok((await send('https://provider.example', body)) === `200 ${body}`, `${size} bytes`)
  }
  const auth = `Basic ${btoa('larkway:p@ss')}`
  t.same(proxy.asked, [`provider.example:443 provider.example:443 ${auth}`])
  t.equal(sockets.size, 1)
  t.same(heads, Array(3).fill(['provider.example', undefined]), 'the provider sees nothing of the proxy')

  t.equal(await send('https://provider.example:8443', 'x'), '200 x')
  t.match(proxy.asked[1], /^provider\.example:8443 /, 'another origin has a tunnel of its own')
})

t.test('a proxy over TLS', async (t) => {
  const { port } = await serveProvider(t, (_, res) => res.end('through'))
  const names: string[] = []
  const SNICallback = (name: string, done: (error: null) => void) => {
    names.push(name)
    done(null)
  }
  const server = createHttpsServer({ ...CERTIFICATE, SNICallback })
  const proxy = await serveProxy(t, () => port, server)
  const send = sender(t, proxy.origin.replace('http://127.0.0.1', 'https://localhost'))
  t.equal(await send('https://provider.example'), '200 through')
  t.same(proxy.asked, ['provider.example:443 provider.example:443 -'])
  t.same(names, ['localhost'], 'the certificate is to be of the proxy, not of the provider')
})

t.test('what is connected to directly', async (t) => {
  const { port } = await serveProvider(t, (_, res) => res.end('direct'))
  const proxy = await serveProxy(t, () => 403)
  const send = sender(t, proxy.origin)
  t.equal(await send(`https://localhost:${port}`), '200 direct', 'this machine')
  t.match(await send('http://provider.invalid'), /^connect: no connection \(E/, 'what is no TLS')
  t.same(proxy.asked, [])

  const no =
    'a.example, .b.example,*.C.example 10.0.0.0/8,192.0.2.7,fd00::/8,[2001:db8::1]:8443,d.example:8443,::2'
  const egress = createEgressProxy({ HTTPS_PROXY: proxy.origin, NO_PROXY: no })
  for (const [host, at, direct] of [
    ['a.example', 443, true],
    ['x.a.example', 443, true],
    ['xa.example', 443, false],
    ['b.example', 443, true],
    ['x.b.example', 443, true],
    ['c.example', 443, true],
    ['d.example', 443, false],
    ['d.example', 8443, true],
    ['x.d.example', 8443, true],
    ['10.200.0.1', 443, true],
    ['11.0.0.1', 443, false],
    ['192.0.2.7', 443, true],
    ['192.0.2.70', 443, false],
    ['fd12::1', 443, true],
    ['2001:db8::1', 443, false],
    ['2001:db8::1', 8443, true],
    ['::1', 443, true],
    ['::2', 443, true],
    ['::3', 443, false],
    ['127.0.0.9', 443, true],
    ['example', 443, false],
  ] as const)
    t.equal(egress?.leadsTo({ host, port: at }), !direct, `${host}:${at}`)
  t.notOk(createEgressProxy({ HTTPS_PROXY: proxy.origin, NO_PROXY: '*' })?.leadsTo({ host: 'a', port: 443 }))
  t.equal(createEgressProxy({ NO_PROXY: '*' }), undefined)
  for (const bad of ['http://a:b:c', 'http://%zz@proxy'])
    t.throws(() => createEgressProxy({ HTTPS_PROXY: bad }), /^HTTPS_PROXY must be a URL such as /)
  for (const bad of ['10.0.0.0/99', '10.0.0.0/x', 'a.example/8'])
    t.throws(() => createEgressProxy({ HTTPS_PROXY: proxy.origin, NO_PROXY: bad }), {
      message: `NO_PROXY has ${bad}, which is no network`,
    })
})

t.test('a tunnel that does not come about is no connection, and a call may go elsewhere', async (t) => {
  const { port } = await serveProvider(t, (_, res) => res.end('through'))
  const clock = new VirtualClock()
  let leads = 407
  const proxy = await serveProxy(t, () => leads)
  const send = sender(t, proxy.origin, { clock })
  for (leads of [403, 407, 502])
    t.equal(await send('https://provider.example'), `connect: no connection (PROXY_${leads})`)
  leads = 1 + 599
  t.match(
    await send('https://provider.example'),
    /^connect: no connection/,
    'nothing listens where it leads to',
  )
  leads = 1
  t.match(await send('https://provider.example'), /^connect: no connection/, 'it breaks off')
  leads = 0
  const silent = send('https://provider.example')
  t.ok(await waitUntil(() => proxy.asked.length === 6))
  await clock.advance(5_000)
  t.equal(await silent, 'connect: no connection')
  t.ok(await waitUntil(() => proxy.open.size === 0), 'nothing of it is left')
  leads = port
  t.equal(await send('https://provider.example'), '200 through')

  const gone = sender(t, 'http://127.0.0.1:1')
  t.equal(await gone('https://provider.example'), 'connect: no connection (ECONNREFUSED)')
})

t.test('a caller that leaves meanwhile leaves no tunnel', async (t) => {
  const { port } = await serveProvider(t, (_, res) => res.end('through'))
  const leaver = new AbortController()
  const proxy = await serveProxy(t, () => {
    leaver.abort(new Error('left'))
    return port
  })
  t.match(await sender(t, proxy.origin)('https://provider.example', '{}', leaver.signal), /left/)
  t.ok(await waitUntil(() => proxy.asked.length === 1 && proxy.open.size === 0))
})

t.test('live sessions', async (t) => {
  const { port, server } = await serveProvider(t, (_, res) => res.end())
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket) => socket.on('message', (data) => socket.send(`heard ${data}`)))
  let leads = port
  const proxy = await serveProxy(t, () => leads)
  const openSocket = createSocketOpener(undefined, createEgressProxy({ HTTPS_PROXY: proxy.origin }))
  const handshake = { url: 'wss://provider.example/v1/listen', protocols: [], headers: {} }
  const opened = () => {
    const end = Promise.withResolvers<SocketEnd>()
    const frame = Promise.withResolvers<LiveFrame>()
    const listener = { onOpen: () => socket.send('you'), onFrame: frame.resolve, onEnd: end.resolve }
    const socket = openSocket(handshake, listener, { handshakeMs: 5_000, headers: {} })
    return { socket, frame: frame.promise, end: end.promise }
  }
  const good = opened()
  t.equal(await good.frame, 'heard you')
  good.socket.close()
  t.match(await good.end, { kind: 'closed', code: 1000 })
  t.same(proxy.asked, ['provider.example:443 provider.example:443 -'])

  leads = 403
  t.match(await opened().end, { failure: { kind: 'connect', reason: 'no connection (PROXY_403)' } })
  leads = 1
  t.match(await opened().end, { failure: { kind: 'connect' } }, 'it breaks off')
  leads = port
  opened().socket.destroy()
  t.ok(
    await waitUntil(() => proxy.asked.length === 4 && proxy.open.size === 0),
    'one that is given up at once',
  )
})

t.test(
  'hosts that callers name are still looked up here, and only what is public is asked for',
  async (t) => {
    const audio = await serveTls(t, authority.issue(['good.example']), answerWith(`${headOf(5)}audio`))
    const hook = await serveTls(t, CERTIFICATE, answerWith('HTTP/1.1 204 No\r\n\r\n'))
    const proxy = await serveProxy(t, (target) => (target.startsWith('8.8.8.8') ? audio.port : hook.port))
    let address = '8.8.8.8'
    const parts = {
      resolve: async () => [address],
      ca: authority.cert,
      egress: createEgressProxy({ HTTPS_PROXY: proxy.origin }),
    }
    const fetchAudio = createAudioFetcher(parts)
    const post = createWebhookPoster({ ...parts, insecure: false })
    const message = { headers: {}, body: '{}' }
    t.equal(await fetched(fetchAudio), 'audio')
    address = '2001:4860:4860::8888'
    t.match(await post('https://hooks.example/a', message), { kind: 'answered', status: 204 })
    t.same(proxy.asked, ['8.8.8.8:443 8.8.8.8:443 -', `[${address}]:443 [${address}]:443 -`])

    address = '10.0.0.1'
    t.equal(await fetched(fetchAudio), 'AUDIO_URL_REJECTED address_not_public')
    t.match(await post('https://hooks.example/a', message), { kind: 'refused' })
    t.equal(proxy.asked.length, 2)
  },
)

t.test(
  'a node asks every provider that way, and goes on to the next entry where it is refused',
  async (t) => {
    const choices = [{ index: 0, message: { role: 'assistant', content: 'through' }, finish_reason: 'stop' }]
    const { port } = await serveProvider(t, (_, res) => {
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify({ id: 'a', object: 'chat.completion', created: 1, model: 'a', choices }))
    })
    let leads = port
    const proxy = await serveProxy(t, () => leads)
    const key = makeKey()
    const own = { access: 'byok', workspace: 'acme', api_key: `\${SECRET}` }
    const providers = {
      far: { ...own, kind: 'openai', base_url: 'https://provider.example/v1' },
      ears: { ...own, kind: 'deepgram', base_url: 'https://ears.example' },
      near: { kind: 'sandbox', access: 'platform' },
    }
    const entries = [
      { provider: 'far', model: 'gpt-4o-mini' },
      { provider: 'ears', model: 'nova-3' },
      { provider: 'near', model: 'morse-1' },
    ]
    const keys = [{ id: 'key_a', app: 'web', sha256: hashKey(key) }]
    const gateway = await startGateway(t, {
      config: {
        providers,
        routes: { all: { workspace: 'acme', entries } },
        workspaces: { acme: { apps: { web: { route: 'all' } }, keys } },
      },
      env: { https_proxy: proxy.origin, SECRET: 'sk-far' },
    })
    const chat = async () => {
      const body = JSON.stringify({ model: 'a', messages: [{ role: 'user', content: 'sos' }] })
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const response = await fetch(`${gateway.url}/openai/v1/chat/completions`, {
        method: 'POST',
        headers,
        body,
      })
      return ((await response.json()) as { choices: { message: { content: string } }[] }).choices[0]?.message
        .content
    }
    t.match(
      gateway.log.find(({ msg }) => msg === 'listening'),
      {
        egress_proxy: proxy.origin.replace('http://', ''),
      },
    )
    t.equal(await chat(), 'through')
    leads = 403
    // In a pool the connection would serve on.
    for (const socket of proxy.open) socket.destroy()
    t.ok(await waitUntil(() => proxy.open.size === 0))
    t.equal(await chat(), '... --- ...')
    t.ok(await waitUntil(() => gateway.log.filter(({ msg }) => msg === 'request').length === 2))
    const reasons = gateway.log.flatMap(({ attempts }) => (attempts as { reason: string }[]) ?? [])
    t.same(
      reasons.map(({ reason }) => reason),
      ['ok', 'no connection (PROXY_403)', 'ok'],
    )

    const protocols = ['token', key]
    const live = new WebSocket(
      `${gateway.url.replace('http', 'ws')}/deepgram/v1/listen?encoding=linear16&sample_rate=8000`,
      protocols,
    )
    await once(live, 'open')
    live.send(JSON.stringify({ type: 'CloseStream' }))
    await once(live, 'close')
    t.same(
      proxy.asked.map((one) => one.split(' ')[0]),
      ['provider.example:443', 'provider.example:443', 'ears.example:443'],
    )
  },
)
