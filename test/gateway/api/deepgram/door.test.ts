import t from 'tap'
import { GatewayError } from '../../../../src/contracts/errors.ts'
import { newId } from '../../../../src/contracts/ids.ts'
import { ASSEMBLYAI } from '../../../../src/gateway/api/assemblyai/door.ts'
import { DEEPGRAM, vendorId } from '../../../../src/gateway/api/deepgram/door.ts'
import { ELEVENLABS } from '../../../../src/gateway/api/elevenlabs/door.ts'

t.test('an id of ours is the UUID of the same number', async (t) => {
  for (const [id, uuid] of [
    ['req_00000000000000000000000000', '00000000-0000-0000-0000-000000000000'],
    ['req_00000000000000000000000001', '00000000-0000-0000-0000-000000000001'],
    ['req_7zzzzzzzzzzzzzzzzzzzzzzzzz', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
    // The example of https://github.com/ulid/spec.
    ['tj_01arz3ndektsv4rrffq69g5fav', '01563e3a-b5d3-d676-4c61-efb99302bd5b'],
  ] as const)
    t.equal(vendorId(id), uuid, id)
  const made = Date.UTC(2026, 10, 30)
  t.equal(
    Number.parseInt(vendorId(newId('req', made)).replaceAll('-', '').slice(0, 12), 16),
    made,
    'its time',
  )
  const many = Array.from({ length: 1_000 }, () => vendorId(newId('req')))
  t.equal(new Set(many).size, many.length)
})

t.test('an id that a caller chose stays as it is', async (t) => {
  for (const id of [
    'req_1',
    'a',
    'req_8zzzzzzzzzzzzzzzzzzzzzzzzz',
    'req_00000000000000000000000001-again',
    '0a0a0a0a-0000-4000-8000-000000000000',
  ])
    t.equal(vendorId(id), id)
})

t.test('an error names the field as the clients of the door do', async (t) => {
  const message = 'audio.url has to begin with https://'
  const error = new GatewayError('AUDIO_URL_REJECTED', message, { param: 'audio.url' })
  for (const [{ door }, name] of [
    [DEEPGRAM, 'url'],
    [ELEVENLABS, 'source_url'],
    [ASSEMBLYAI, 'audio_url'],
  ] as const) {
    const { message, extra } = door.translateError(error, { headers: {} })
    t.same([message, extra.param], [`${name} has to begin with https://`, name])
  }
  const speakers = new GatewayError('INVALID_REQUEST', '`speaker_count_hint` is wrong', {
    param: 'speaker_count_hint',
  })
  const { message: named } = ASSEMBLYAI.door.translateError(speakers, { headers: {} })
  t.equal(named, '`speakers_expected` is wrong')
})
