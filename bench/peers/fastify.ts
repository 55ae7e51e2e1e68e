import { createRequire } from 'node:module'
import { join } from 'node:path'
import { NPM_PEERS } from './install.ts'

// A gateway written in the usual way: Fastify, whole bodies, FormData and fetch.
// usage: node bench/peers/fastify.ts PORT UPSTREAM_PORT

/** The part of Fastify that is used; it is not among this project's packages, so its types are not there. */
interface Fastify {
  get(path: string, handler: () => unknown): void
  post(path: string, handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>): void
  register(plugin: unknown, options: object): void
  listen(options: { port: number; host: string }): Promise<string>
}
interface FastifyRequest {
  readonly body: unknown
  file(): Promise<{ readonly mimetype: string; toBuffer(): Promise<Buffer> } | undefined>
}
interface FastifyReply {
  code(status: number): FastifyReply
}

const [port, upstreamPort] = process.argv.slice(2).map(Number)
const upstream = `http://127.0.0.1:${upstreamPort}`
const require = createRequire(join(NPM_PEERS, 'package.json'))
const createFastify = require('fastify') as (options: object) => Fastify

const app = createFastify({ logger: false, bodyLimit: 64 * 1024 * 1024 })
app.register(require('@fastify/multipart'), { limits: { fileSize: 26_214_400 } })
app.register(require('@fastify/http-proxy'), { upstream, prefix: '/proxy' })

app.get('/healthz', () => ({ status: 'ok' }))

app.post('/v1/audio/transcriptions', async (request, reply) => {
  const file = await request.file()
  if (!file) return reply.code(400)
  return await transcribe(await file.toBuffer(), file.mimetype)
})

app.post('/json/transcriptions', async (request) => {
  const { audio } = request.body as { audio: { base64: string; media_type: string } }
  return await transcribe(Buffer.from(audio.base64, 'base64'), audio.media_type)
})

/** Forwards nothing: what parsing and decoding cost by themselves. */
app.post('/json/parsed', async (request) => {
  const { audio } = request.body as { audio: { base64: string } }
  return { text: `bytes:${Buffer.from(audio.base64, 'base64').length}` }
})

await app.listen({ port: port ?? 0, host: '127.0.0.1' })

async function transcribe(audio: Buffer, type: string): Promise<unknown> {
  const form = new FormData()
  form.append('model', 'whisper-1')
  form.append('file', new Blob([audio as Buffer<ArrayBuffer>], { type }), 'speech.wav')
  const response = await fetch(`${upstream}/v1/audio/transcriptions`, { method: 'POST', body: form })
  return await response.json()
}
