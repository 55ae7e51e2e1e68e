-- Puts tokens back into a key's bucket that a node took ahead and has not used.
--
-- KEYS bucket
-- ARGV interval_us tokens
-- Reply 1 | 0: 0 when the bucket was full already
--
-- Sent at most once for the same tokens: a return that is lost leaves the limit stricter, one that came twice would
-- loosen it. A bucket that is full has no record, and no room either.

local bucket = KEYS[1]
local interval_us, tokens = tonumber(ARGV[1]), tonumber(ARGV[2])

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]

local full_at_us = tonumber(redis.call('GET', bucket) or 0)
if full_at_us <= now_us then return 0 end

local missing_us = full_at_us - now_us - interval_us * tokens
if missing_us > 0 then
  redis.call('SET', bucket, string.format('%.0f', now_us + missing_us), 'PX', math.ceil(missing_us / 1000))
else
  redis.call('DEL', bucket)
end
return 1
