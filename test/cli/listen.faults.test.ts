import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runCommand } from '../../src/cli/commands.ts'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { speakSamples } from '../../src/sandbox/speak.ts'
import { writeWav } from '../../src/sandbox/wav.ts'
import { startDemoRoute } from '../support/demo-route.ts'
import { startGateway } from '../support/gateway.ts'
import { waitUntil } from '../support/wait-until.ts'

const TEXT = 'alpha bravo charlie delta'
const RATE = 16_000

/** A recording of the text at twice the usual speed: six seconds. */
async function recording(t: Test): Promise<string> {
  const file = join(t.testdir(), 'talk.wav')
  await writeFile(file, writeWav(speakSamples(TEXT, 600, 2, RATE), RATE))
  return file
}

/** Runs the command, telling each line as it is printed. */
async function listen(args: readonly string[], onLine: (lines: readonly string[]) => void = () => undefined) {
  const [lines, errors]: [string[], string[]] = [[], []]
  const code = await runCommand(['listen', ...args], {
    env: {},
    print: (text) => {
      lines.push(...text.trimEnd().split('\n'))
      onLine(lines)
    },
    complain: (sentence) => void errors.push(sentence),
  })
  return { code, text: lines.join(' '), errors }
}

/** An address behind which nodes can be changed, as behind a balancer. */
async function startBalancer(t: Test, target: () => number) {
  const sockets = new Set<Socket>()
  const server = createServer((caller) => {
    const node = connect(target(), '127.0.0.1')
    caller.pipe(node).pipe(caller)
    for (const socket of [caller, node]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => [caller, node].map((of) => of.destroy()))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    for (const socket of sockets) socket.resetAndDestroy()
  }
  t.teardown(() => {
    cut()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cut }
}

t.test(
  'a provider that dies in the middle of a word: another one goes on, and no word is lost or doubled',
  async (t) => {
    const node = await startDemoRoute(t, { entries: [{ reset_in_word: 2 }, {}] })
    const [, key = ''] = node.authorization.authorization.split(' ')
    const { code, text, errors } = await listen([
      await recording(t),
      '--url',
      node.url,
      '--key',
      key,
      '--fast',
    ])
    t.equal(code, 0)
    t.equal(text, TEXT)
    t.match(errors, [/failed; .* goes on \([\d.]+ s again, 0 s lost\)/])
  },
)

t.test('a node that goes away, and a connection that breaks: another session goes on', async (t) => {
  const file = await recording(t)
  const key = makeKey()
  const options = { key, env: { LARKWAY_DRAIN_SECONDS: '5' } }
  const [first, second] = [await startGateway(t, options), await startGateway(t, options)]
  let node = first
  const { url, cut } = await startBalancer(t, () => node.port)
  const breaks = await listen([file, '--url', url, '--key', key], (lines) => {
    if (lines.length === 2) cut()
  })
  t.match(breaks, { code: 0, text: TEXT, errors: [/\(1006\); another one goes on at [\d.]+ s/] })

  const stopped: Promise<unknown>[] = []
  const leaves = await listen([file, '--url', url, '--key', key], (lines) => {
    if (lines.length !== 2 || stopped.length > 0) return
    node = second
    stopped.push(first.signal('SIGTERM'))
  })
  t.match(leaves, { code: 0, text: TEXT, errors: [/ends this session in [\d.]+ s \(drain\)/] })
  await Promise.all(stopped)
  const sessions = () => second.log.filter(({ path }) => path === '/v1/transcription/stream')
  await waitUntil(() => sessions().length > 0)
  t.equal(sessions().length, 1, 'the second node had the rest')
})
