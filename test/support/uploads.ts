import type { Test } from 'tap'
import * as tus from 'tus-js-client'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { noise } from './bodies.ts'
import { sha256 } from './digests.ts'
import { type Gateway, type GatewayOptions, startGateway } from './gateway.ts'
import { type EarOptions, startEar } from './slow-ear.ts'
import { wavHead } from './wav.ts'

type Start<Started extends Gateway> = (t: Test, options: GatewayOptions) => Promise<Started>

export const MIB = 1024 * 1024

/** Gateways for uploads of up to 512 MiB, one after the other of one configuration; their provider hears digests. */
export async function uploadRoute(t: Test, options: EarOptions = {}) {
  const key = makeKey()
  const ear = await startEar(t, options)
  const config = {
    limits: { max_audio_bytes: 512 * MIB },
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: {
      ear: { kind: 'deepgram', access: 'byok', workspace: 'acme', api_key: `\${EAR_KEY}`, base_url: ear.url },
    },
    routes: { voice: { workspace: 'acme', entries: [{ provider: 'ear', model: 'nova-3' }] } },
    workspaces: {
      acme: {
        apps: { web: { route: 'voice' } },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
      },
    },
  }
  const authorization = { authorization: `Bearer ${key}` }
  return {
    authorization,
    async start<Started extends Gateway>(
      gatewayOptions: GatewayOptions = {},
      by: Start<Started> = startGateway as unknown as Start<Started>,
    ) {
      const gateway = await by(t, {
        ...gatewayOptions,
        key,
        config,
        env: { EAR_KEY: 'ear', ...gatewayOptions.env },
      })
      return {
        ...gateway,
        /** What the provider says of the audio that it is sent for an upload: the digest of it. */
        async heard(id: string): Promise<string> {
          const response = await fetch(`${gateway.url}/v1/transcription`, {
            method: 'POST',
            headers: { ...authorization, 'content-type': 'application/json' },
            body: JSON.stringify({ audio: { upload_id: id } }),
          })
          const { content, error } = (await response.json()) as {
            content?: string
            error?: { message: string }
          }
          return content ?? String(error?.message)
        },
      }
    },
  }
}

/** What a provider hears in audio. */
export const heardOf = (audio: Uint8Array) => `Heard ${sha256(audio)}`

/** Audio no part of which is like another. */
export function noisyWav(bytes: number): Buffer {
  return Buffer.concat([wavHead({ sampleRate: 16_000, dataBytes: bytes - 44 }), noise(bytes - 44)])
}

type Options = Partial<tus.UploadOptions>

/** Uploads with the tus project's own client, and resolves with the id. */
export function tusUpload(
  origin: string,
  headers: Record<string, string>,
  bytes: Buffer,
  options: Options = {},
) {
  return new Promise<string>((resolve, reject) => {
    const upload: tus.Upload = new tus.Upload(bytes, {
      endpoint: `${origin}/v1/uploads`,
      headers,
      retryDelays: new Array<number>(20).fill(0),
      metadata: { filename: 'meeting.wav', filetype: 'audio/wav' },
      onError: reject,
      onSuccess: () => resolve(upload.url!.split('/').at(-1)!),
      ...options,
    })
    upload.start()
  })
}
