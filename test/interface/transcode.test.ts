import { execFile, spawnSync } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { fixture } from '../gateway/media/fixtures.ts'
import { startEar } from '../support/ear.ts'
import { spokenWords, wordAt } from '../support/long-speech.ts'
import { startRouteGateway } from '../support/route-gateway.ts'
import { waitUntil } from '../support/wait-until.ts'
import { storedObjects } from './stored-objects.ts'

// Audio that no entry takes, made into audio that they take by the system's ffmpeg, where there is one.

const WORDS = Array.from({ length: 6 }, (_, index) => wordAt(index))
const EVERY_SECONDS = 5
const SPOKEN = spokenWords(WORDS.length, EVERY_SECONDS)
/** The same words, to be heard in many formats. */
const BRIEF_SECONDS = 2
const BRIEF = spokenWords(WORDS.length, BRIEF_SECONDS)
/** Where the first word begins, as the ear hears it in the file itself. */
const ONSET_SECONDS = 0.668
const PATH = process.env.PATH ?? ''
const skip =
  spawnSync('ffmpeg', ['-version']).status === 0 ? false : 'ffmpeg is not installed; see docs/long-audio.md'

interface Transcript {
  readonly content: string
  readonly words: readonly { readonly word: string; readonly start: number }[]
  readonly parts?: readonly unknown[]
  readonly warnings: readonly string[]
  readonly usage: { readonly audio_seconds: number }
}

interface RigOptions {
  readonly route?: object
  readonly limits?: object
  readonly config?: object
  readonly path?: string
}

async function start(
  t: Test,
  { route = { transcode: true }, limits = {}, config = {}, path = PATH }: RigOptions = {},
) {
  const ear = await startEar(t, {})
  const gateway = await startRouteGateway(t, {
    providers: { ears: { kind: 'openai-compatible', base_url: ear.url, retention: 'zero' } },
    entries: [
      {
        ...{ provider: 'ears', model: 'whisper-1', capabilities: ['audio_input'] },
        features: ['word_timestamps', 'segment_timestamps'],
        price: { per_hour_usd: 3.6 },
        limits: { audio_formats: ['ogg', 'wav'], ...limits },
      },
    ],
    route: route as Readonly<Record<string, unknown>>,
    config: config as Readonly<Record<string, unknown>>,
    credits: 100,
    env: { PATH: path },
  })
  return { ear, gateway }
}

type Gateway = Awaited<ReturnType<typeof start>>['gateway']

function form(audio: Uint8Array, fields: Readonly<Record<string, string>> = {}): FormData {
  const data = new FormData()
  data.append('file', new Blob([new Uint8Array(audio)]), 'recording')
  for (const [name, value] of Object.entries({ timestamps: 'word', ...fields })) data.append(name, value)
  return data
}

async function hear({ post }: Gateway, body: FormData): Promise<Transcript> {
  const response = await post('/v1/transcription', body)
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
  return (await response.json()) as Transcript
}

async function refusal({ post }: Gateway, audio: Uint8Array, fields = {}): Promise<string> {
  const response = await post('/v1/transcription', form(audio, fields))
  const { error } = (await response.json()) as { readonly error: { readonly code: string } }
  return `${response.status} ${error.code}`
}

async function folderOf(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'larkway-transcode-'))
  t.teardown(() => rm(folder, { recursive: true }))
  return folder
}

/** The words in a file that ffmpeg writes. */
async function encoded(t: Test, spoken: Buffer, name: string, ...flags: string[]): Promise<Buffer> {
  const folder = await folderOf(t)
  await writeFile(join(folder, 'in.wav'), spoken)
  const picture = ['-f', 'lavfi', '-i', 'testsrc=duration=12:size=64x48:rate=5']
  const inputs = ['-i', join(folder, 'in.wav'), ...(flags.includes('-c:v') ? picture : [])]
  await promisify(execFile)('ffmpeg', ['-v', 'error', ...inputs, ...flags, join(folder, name)])
  return await readFile(join(folder, name))
}

/** A program in the place of ffmpeg, which says what it is started with. @returns the folder that it is in */
async function pretendTranscoder(t: Test, script: string): Promise<string> {
  const folder = await folderOf(t)
  await writeFile(join(folder, 'ffmpeg'), `#!/bin/sh\nhere=${folder}\n${script}\n`)
  await chmod(join(folder, 'ffmpeg'), 0o755)
  return folder
}

function checkWords(t: Test, { content, words }: Transcript, name: string, everySeconds = EVERY_SECONDS) {
  t.equal(content, WORDS.join(' '), name)
  const off = words.map(({ start }, index) => Math.abs(start - (index * everySeconds + ONSET_SECONDS)))
  t.ok(
    off.every((seconds) => seconds < 0.1),
    `${name}: ${off.map((one) => one.toFixed(3))}`,
  )
}

t.test('what no entry takes is heard at its times: every word once', { skip }, async (t) => {
  const { gateway } = await start(t)
  const files: [name: string, from: string, ...flags: string[]][] = [
    ['a.flac', 'from flac '],
    // Its index is behind the sound.
    ['a.mov', 'from mp4 ', '-c:v', 'mjpeg', '-c:a', 'aac'],
    ['a.mkv', 'from webm ', '-c:v', 'mpeg4', '-c:a', 'ac3'],
    ['a.mp3', 'from mp3 '],
    ['a.avi', '', '-c:v', 'mpeg4', '-c:a', 'mp2'],
    ['a.ts', '', '-c:v', 'mpeg2video', '-c:a', 'mp2'],
    ['a.aiff', ''],
    ['a.aac', '', '-ar', '44100'],
    ['a.wma', ''],
    ['a.caf', ''],
  ]
  for (const [name, from, ...flags] of files) {
    const transcript = await hear(gateway, form(await encoded(t, BRIEF, name, ...flags)))
    checkWords(t, transcript, name, BRIEF_SECONDS)
    t.same(transcript.warnings, [`audio: transcoded ${from}to ogg`], name)
    t.ok(Math.abs(transcript.usage.audio_seconds - 12) < 0.2, `${name}: ${transcript.usage.audio_seconds} s`)
  }
  const own = await hear(gateway, form(SPOKEN))
  t.same([own.content, own.warnings], [WORDS.join(' '), []], 'what an entry takes stays as it is')
})

t.test('what is too long then is heard in parts, in a job as well', { skip }, async (t) => {
  const { gateway } = await start(t, { limits: { max_audio_seconds: 20, audio_formats: ['wav'] } })
  const file = await encoded(t, SPOKEN, 'a.aiff')
  const transcript = await hear(gateway, form(file))
  checkWords(t, transcript, 'waited for')
  t.equal(transcript.parts?.length, 3)
  t.same(transcript.warnings, ['audio: transcoded to wav'])
  const submitted = await gateway.post('/v1/transcription/jobs', form(file))
  const { job_id: id } = (await submitted.json()) as { readonly job_id: string }
  const url = `${gateway.url}/v1/transcription/jobs/${id}?wait=20`
  let job: { readonly result: Transcript | null } = { result: null }
  await waitUntil(async () => {
    job = (await (await fetch(url, { headers: gateway.authorization })).json()) as typeof job
    return job.result !== null
  })
  checkWords(t, job.result!, 'of a job')
  await waitUntil(async () => (await storedObjects(gateway.dataFolder)).length === 0)
  t.same(await storedObjects(gateway.dataFolder), [], 'nothing is left of what was made on the way')
})

t.test('what is no audio, and names other files, is refused', { skip }, async (t) => {
  const { gateway } = await start(t)
  const picture = await encoded(t, BRIEF, 'a.mp4', '-map', '1:v', '-c:v', 'mpeg4')
  const cases: Record<string, string | Uint8Array> = {
    text: 'a transcription of nothing at all, several words long',
    zeros: Buffer.alloc(100_000),
    'a playlist': '#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n',
    'a list of files': 'ffconcat version 1.0\nfile /etc/passwd\n',
    'a session': 'v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=audio 9 RTP/AVP 0\n',
    'a video without sound': picture,
  }
  for (const [name, bytes] of Object.entries(cases))
    t.equal(await refusal(gateway, Buffer.from(bytes)), '415 UNSUPPORTED_AUDIO_FORMAT', name)
  const octets = { 'content-type': 'application/octet-stream' }
  const upload = (bytes: string) => gateway.post('/assemblyai/v2/upload', Buffer.from(bytes), octets)
  const answer = await upload('maybe audio of some kind')
  t.equal(answer.status, 200, `an upload is looked at later: ${await answer.text()}`)
})

t.test('it is the route that allows it, and the program that does it', async (t) => {
  const flac = fixture('flac-mono.flac')
  const adts = fixture('none-adts.aac')
  for (const rig of [{ route: {} }, { path: '/nowhere' }]) {
    const { gateway } = await start(t, rig)
    const name = JSON.stringify(rig)
    t.equal(await refusal(gateway, flac), '400 INVALID_REQUEST', name)
    t.equal(await refusal(gateway, adts), '415 UNSUPPORTED_AUDIO_FORMAT', name)
  }
})

t.test('limits hold for what is transcoded', { skip }, async (t) => {
  const { gateway, ear } = await start(t, { config: { limits: { max_audio_seconds: 20 } } })
  t.equal(await refusal(gateway, await encoded(t, SPOKEN, 'a.aiff')), '413 AUDIO_TOO_LONG')
  const kept = { require: '{"retention":"zero"}' }
  t.match(await refusal(gateway, fixture('none-adts.aac'), kept), /^4.. (?:REQUIRED_FEATURE|INVALID)/)
  t.equal(ear.heard.length, 0)
})

t.test('the program is alone: no environment, little memory, no descriptors', async (t) => {
  const told = [
    'tr "\\\\0" "\\\\n" < /proc/$$/environ > $here/env',
    'ulimit -a > $here/limits',
    'ls -l /proc/$$/fd > $here/fd',
    'echo "$@" > $here/arguments',
    'cat > /dev/null',
    'exit 1',
  ]
  const path = await pretendTranscoder(t, told.join('\n'))
  const { gateway } = await start(t, { path: `${path}:${PATH}` })
  t.equal(await refusal(gateway, fixture('none-adts.aac')), '415 UNSUPPORTED_AUDIO_FORMAT')
  const read = (name: string) => readFile(join(path, name), 'utf8')
  const names = (await read('env')).split('\n').map((line) => line.replace(/=.*/, ''))
  t.same(
    names.filter((name) => !['', 'LC_ALL', 'TMPDIR', 'PWD', '_', 'OLDPWD', 'SHLVL'].includes(name)),
    [],
  )
  const limits = await read('limits')
  for (const one of [/core.* 0\n/i, /(?:virtual|vmemory).* 1048576\n/i, /time.* 900\n/i]) t.match(limits, one)
  t.notMatch(await read('fd'), /\/objects\/|larkway\.db/, 'nothing of the node is open to it')
  t.match(
    await read('arguments'),
    /-protocol_whitelist pipe,cache -format_whitelist \S+mov\S+ -codec_whitelist/,
  )
})

t.test('the program ends with its call', async (t) => {
  const path = await pretendTranscoder(t, 'echo $$ > $here/pid\nexec sleep 600')
  const { gateway } = await start(t, { path: `${path}:${PATH}` })
  const pid = async () => Number(await readFile(join(path, 'pid'), 'utf8').catch(() => '0'))
  const leaving = new AbortController()
  const { authorization } = gateway
  const [method, body, signal] = ['POST', form(fixture('none-adts.aac')), leaving.signal] as const
  const left = fetch(`${gateway.url}/v1/transcription`, { method, headers: authorization, body, signal })
  await waitUntil(async () => (await pid()) > 0)
  leaving.abort()
  await t.rejects(left)
  const isThere = (id: number) => {
    try {
      return process.kill(id, 0)
    } catch {
      return false
    }
  }
  const id = await pid()
  await waitUntil(() => !isThere(id))
  t.notOk(isThere(id))
})
