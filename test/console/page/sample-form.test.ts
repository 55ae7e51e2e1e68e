import t from 'tap'
import { PLAIN_FORM, readSample, type SampleForm } from '../../../src/console/page/views/routes/sample.ts'
import { readDuration } from '../../../src/console/page/views/routes/words.ts'
import { OPERATION_NAMES } from '../../../src/contracts/operations.ts'

const form = (change: Partial<SampleForm>): SampleForm => ({ ...PLAIN_FORM, ...change })

t.test('durations are read as people write them', async (t) => {
  for (const [text, seconds] of [
    ['90', 90],
    [' 90 s ', 90],
    ['1:30', 90],
    ['1:02:03', 3723],
    ['5 min', 300],
    ['5m', 300],
    ['1.5 h', 5400],
    ['0.5', 0.5],
    ['', null],
    ['0', null],
    ['0:00', null],
    ['1:75', null],
    ['-3', null],
    ['1e3', null],
    ['5 none', null],
    ['9000 h', null],
    ['two', null],
  ] as const)
    t.equal(readDuration(text), seconds, JSON.stringify(text))
})

t.test('a plain transcription is a minute of wav', async (t) => {
  t.same(readSample(PLAIN_FORM).sample, {
    audio: { format: 'wav', bytes: 1_920_000, seconds: 60, channels: 1 },
  })
})

t.test('what was chosen is sent in wire names', async (t) => {
  const { sample } = readSample(
    form({
      purpose: 'calls',
      profile: 'fast',
      features: ['diarization', 'word_timestamps'],
      hints: ['prompt'],
      language: ' de ',
      format: 'mp3',
      duration: '1 h',
      megabytes: '24.5',
      channels: '2',
    }),
  )
  t.same(sample, {
    purpose: 'calls',
    response_profile: 'fast',
    features: ['diarization', 'word_timestamps'],
    hints: ['prompt'],
    language: 'de',
    audio: { format: 'mp3', bytes: 24_500_000, seconds: 3600, channels: 2 },
  })
})

t.test('only what the endpoint looks at is sent', async (t) => {
  const all: Partial<SampleForm> = {
    features: ['diarization'],
    voice: 'alloy',
    speed: '1.5',
    responseFormat: 'mp3',
    images: true,
    tools: true,
    spoken: true,
    size: '1024x1024',
    seconds: '8',
    count: '3',
    dimensions: '256',
  }
  const sampleOf = (endpoint: SampleForm['endpoint']) => readSample(form({ ...all, endpoint })).sample
  t.same(sampleOf('speech'), { characters: 1000, voice: 'alloy', speed: 1.5, response_format: 'mp3' })
  t.same(sampleOf('chat'), { characters: 1000, images: true, tools: true, spoken: true })
  t.same(sampleOf('embeddings'), { characters: 1000, count: 3, dimensions: 256 })
  t.same(sampleOf('image'), { characters: 1000, count: 3, size: '1024x1024', response_format: 'mp3' })
  t.same(sampleOf('video'), { characters: 1000, duration_seconds: 8, size: '1024x1024' })
  t.same(sampleOf('complete'), { characters: 1000 })
  t.same(sampleOf('vision'), { characters: 1000, tools: true })
  for (const endpoint of OPERATION_NAMES) t.ok(readSample(form({ endpoint })).sample, endpoint)
})

t.test('what cannot be read is said beside its field, and is no concern of another endpoint', async (t) => {
  const bad = form({ duration: 'long', megabytes: '-1', channels: '0.5', characters: 'many', speed: 'fast' })
  t.same(Object.keys(readSample(bad).issues ?? {}).sort(), ['channels', 'duration', 'megabytes'])
  t.same(Object.keys(readSample({ ...bad, endpoint: 'speech' }).issues ?? {}), ['characters', 'speed'])
  t.same(readSample({ ...bad, endpoint: 'image', characters: '5' }).sample, { characters: 5, count: 1 })
})
