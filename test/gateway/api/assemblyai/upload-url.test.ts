import t from 'tap'
import type { AudioRef } from '../../../../src/contracts/audio.ts'
import { isUploadUrl, openUpload, uploadUrl } from '../../../../src/gateway/api/assemblyai/upload-url.ts'

const KEYS = [Buffer.alloc(32, 1)]
const MADE_MS = Date.UTC(2026, 0, 1)
const DAY_MS = 24 * 3_600_000
const AUDIO: AudioRef = {
  source: { kind: 'object', key: 'upload/acme/upl_1/0', written: { bytes: 7, crc32: 0 } },
  ...{ offset: 0, length: 7, encoding: 'identity', decodedBytes: 7, canonical: true },
  ...{ mediaType: null, filename: null },
}

t.test('an upload is of use to its own workspace, for a day', async (t) => {
  const url = uploadUrl(AUDIO, 'acme', KEYS, MADE_MS)
  t.ok(isUploadUrl(url))
  t.notMatch(url, /acme|upl_1/)
  t.same(openUpload(url, 'acme', KEYS, MADE_MS), AUDIO)
  t.same(openUpload(url, 'acme', [Buffer.alloc(32, 2), ...KEYS], MADE_MS), AUDIO, 'with a newer key')
  const refusal = { message: '`audio_url` must be of an upload of this workspace in the last 24 hours' }
  t.throws(() => openUpload(url, 'other', KEYS, MADE_MS), refusal)
  t.throws(() => openUpload(url, 'acme', [Buffer.alloc(32, 2)], MADE_MS), refusal)
  t.throws(() => openUpload(url.slice(0, -1), 'acme', KEYS, MADE_MS), refusal)
  t.same(openUpload(url, 'acme', KEYS, MADE_MS + DAY_MS - 1), AUDIO)
  t.throws(() => openUpload(url, 'acme', KEYS, MADE_MS + DAY_MS), refusal)
})

t.test('one of the last version, which says nothing of what was written, is opened', async (t) => {
  const source = { kind: 'object', key: 'upload/acme/upl_1/0' } as const
  const url = uploadUrl({ ...AUDIO, source }, 'acme', KEYS, MADE_MS)
  t.same(openUpload(url, 'acme', KEYS, MADE_MS).source, source)
})
