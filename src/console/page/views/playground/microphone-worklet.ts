/**
 * Runs on the browser's audio thread, loaded by its address: turns what the microphone hears into samples of 16 bits
 * and hands them over in pieces.
 */

/** Samples of one channel, s16le as the machine writes them: browsers run on little-endian ones only. */
export type MicrophonePiece = Int16Array<ArrayBuffer>

// TypeScript's library of the DOM does not have the globals of a worklet.
declare const sampleRate: number
declare class AudioWorkletProcessor {
  readonly port: MessagePort
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void

/** The audio thread works in blocks of 128 samples, each of which would cost a message. */
const PIECE_SECONDS = 0.05

class Microphone extends AudioWorkletProcessor {
  #piece: MicrophonePiece = new Int16Array(Math.round(sampleRate * PIECE_SECONDS))
  #count = 0

  /** @returns true: there is more to come */
  process([channels = []]: readonly (readonly Float32Array[])[]): boolean {
    const [samples = new Float32Array()] = channels
    for (const sample of samples) {
      this.#piece[this.#count] = Math.max(-1, Math.min(1, sample)) * 0x7fff
      this.#count += 1
      if (this.#count === this.#piece.length) this.#handOver()
    }
    return true
  }

  #handOver(): void {
    const piece = this.#piece
    this.#piece = new Int16Array(piece.length)
    this.#count = 0
    this.port.postMessage(piece, [piece.buffer])
  }
}

registerProcessor('microphone', Microphone)
