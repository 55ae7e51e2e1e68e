const HEAD_BYTES = 44
/** What a writer leaves that does not know the length. */
const OPEN = 0xffff_ffff

interface WavHead {
  readonly sampleRate: number
  /** 1: samples as they are. */
  readonly codec?: number
  readonly bits?: number
  /** Bytes of samples; absent: not known yet. */
  readonly dataBytes?: number
}

/** The head of a wav of mono samples. */
export function wavHead({ sampleRate, codec = 1, bits = 16, dataBytes }: WavHead): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.write('RIFF', 0, 'latin1')
  head.writeUInt32LE(dataBytes === undefined ? OPEN : HEAD_BYTES - 8 + dataBytes, 4)
  head.write('WAVEfmt ', 8, 'latin1')
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(codec, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(sampleRate, 24)
  head.writeUInt32LE(sampleRate * 2, 28)
  head.writeUInt16LE(2, 32)
  head.writeUInt16LE(bits, 34)
  head.write('data', 36, 'latin1')
  head.writeUInt32LE(dataBytes ?? OPEN, 40)
  return head
}

/** A wav of 16-bit mono samples, exactly `bytes` long; every byte of its data is `fill`. */
export function filledWav(bytes: number, fill = 0, sampleRate = 16_000): Buffer {
  const dataBytes = bytes - HEAD_BYTES
  return Buffer.concat([wavHead({ sampleRate, dataBytes }), Buffer.alloc(dataBytes, fill)])
}
