/** A wav of 16-bit mono samples, exactly `bytes` long; every byte of its data is `fill`. */
export function filledWav(bytes: number, fill = 0, sampleRate = 16_000): Buffer {
  const wav = Buffer.alloc(bytes, fill)
  wav.write('RIFF', 0, 'latin1')
  wav.writeUInt32LE(bytes - 8, 4)
  wav.write('WAVEfmt ', 8, 'latin1')
  wav.writeUInt32LE(16, 16)
  wav.writeUInt16LE(1, 20)
  wav.writeUInt16LE(1, 22)
  wav.writeUInt32LE(sampleRate, 24)
  wav.writeUInt32LE(sampleRate * 2, 28)
  wav.writeUInt16LE(2, 32)
  wav.writeUInt16LE(16, 34)
  wav.write('data', 36, 'latin1')
  wav.writeUInt32LE(bytes - 44, 40)
  return wav
}
