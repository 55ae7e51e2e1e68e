import type { RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { html } from '../../html.ts'
import { Note } from '../../parts/states.ts'

/** Plays audio that lies in the page. */
export function Player(props: {
  readonly src: string
  readonly label: string
  readonly audio: RefObject<HTMLAudioElement | null>
}) {
  const { src, label, audio } = props
  const [broken, setBroken] = useState(false)
  useEffect(() => {
    setBroken(false)
    const player = audio.current
    if (player) return findDuration(player)
  }, [src])
  return html`<div class="play-player">
    <audio
      ref=${audio}
      src=${src}
      controls
      preload="metadata"
      aria-label=${label}
      onError=${() => setBroken(true)}
    ></audio>
    ${
      broken
        ? html`<${Note} tone="warn">Your browser can’t play this format. Download the file to listen to it.<//>`
        : null
    }
  </div>`
}

/** What a browser records says nothing of its length until it was wound to its end, and cannot be wound before. */
function findDuration(player: HTMLAudioElement): () => void {
  const ended = () => {
    player.removeEventListener('durationchange', ended)
    player.currentTime = 0
  }
  const known = () => {
    if (player.duration !== Number.POSITIVE_INFINITY) return
    player.addEventListener('durationchange', ended)
    player.currentTime = 86_400
  }
  player.addEventListener('loadedmetadata', known)
  return () => {
    player.removeEventListener('loadedmetadata', known)
    player.removeEventListener('durationchange', ended)
  }
}
