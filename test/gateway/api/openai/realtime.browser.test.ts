import { build } from 'esbuild'
import OpenAI from 'openai'
import t from 'tap'
import { openBrowser } from '../../../support/browser.ts'
import { localCertificate } from '../../../support/edge.ts'
import { startGateway } from '../../../support/gateway.ts'
import { liveAudio } from '../../../support/live-audio.ts'
import { withoutServers } from '../../../support/servers.ts'
import { waitUntil } from '../../../support/wait-until.ts'

const WORDS = 'hello live world'
const PIECE_BYTES = 4_800

/** OpenAI's own class for browsers, as an application bundles them. */
async function bundle(): Promise<string> {
  const contents = `
    import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket'
    Object.assign(globalThis, { OpenAIRealtimeWebSocket })`
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname },
    ...{ bundle: true, write: false, format: 'iife', platform: 'browser', logLevel: 'silent' },
  })
  return outputFiles[0]!.text
}

interface Ordered {
  readonly baseURL: string
  readonly apiKey: string
  readonly pieces: readonly string[]
}

/** Runs in the page. */
async function listen({ baseURL, apiKey, pieces }: Ordered): Promise<{ text: string; errors: string[] }> {
  const { OpenAIRealtimeWebSocket: Realtime } = globalThis as never as {
    OpenAIRealtimeWebSocket: typeof import('openai/realtime/websocket').OpenAIRealtimeWebSocket
  }
  const realtime = new Realtime({ intent: 'transcription' }, { baseURL, apiKey })
  const errors: string[] = []
  return new Promise((resolve) => {
    const end = (text: string) => {
      realtime.close()
      resolve({ text, errors })
    }
    realtime.on('error', ({ message }) => {
      errors.push(message)
      end('')
    })
    realtime.on('conversation.item.input_audio_transcription.completed', ({ transcript }) => end(transcript))
    realtime.on('session.created', async () => {
      for (const audio of pieces) {
        realtime.send({ type: 'input_audio_buffer.append', audio })
        await new Promise((next) => setTimeout(next, 100))
      }
      realtime.send({ type: 'input_audio_buffer.commit' })
    })
  })
}

t.test(
  "OpenAI's client in a browser transcribes with a client secret",
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const certificate = await localCertificate(t)
    const { certFile, keyFile } = certificate.files
    const gateway = await startGateway(t, {
      env: { LARKWAY_TLS_CERT: certFile, LARKWAY_TLS_KEY: keyFile, LARKWAY_TLS_PORT: '0' },
    })
    const port = gateway.log.find(({ msg }) => msg === 'listening')?.tls_port
    const server = new OpenAI({ baseURL: `${gateway.url}/openai/v1`, apiKey: gateway.key })
    const { value } = await server.realtime.clientSecrets.create({
      session: { type: 'transcription', audio: { input: { turn_detection: null } } } as never,
    })
    const browser = await openBrowser(t)
    const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage()
    await page.goto(`https://localhost:${port}/healthz`)
    await page.evaluate(await bundle())
    const { pcm } = liveAudio(WORDS, { sampleRate: 24_000, speed: 3 })
    const pieces: string[] = []
    for (let at = 0; at < pcm.length; at += PIECE_BYTES)
      pieces.push(pcm.subarray(at, at + PIECE_BYTES).toString('base64'))
    const baseURL = `https://localhost:${port}/openai/v1`
    t.same(await page.evaluate(listen, { baseURL, apiKey: value, pieces }), { text: WORDS, errors: [] })
    const lineOf = () => gateway.log.find(({ path }) => path === '/openai/v1/realtime')
    await waitUntil(() => lineOf() !== undefined)
    t.match(lineOf(), { status: 101, error: undefined, usage: { audio_seconds: Number } }, 'it ended well')
    t.notOk(
      gateway.output.some((line) => line.includes(value.slice(0, 30))),
      'the secret is in no line of the log',
    )
  },
)
