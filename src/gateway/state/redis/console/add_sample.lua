-- Keeps what a node saw in a step of time, once per node and moment, and forgets what is older than `keep_ms`.
--
-- KEYS samples
-- ARGV node at_ms keep_ms sample
-- Reply 1 | 0: whether this call kept it
--
-- Samples are sorted by their moments, which are those of the nodes' clocks: what claims to be of a far future is
-- forgotten too, or it would stay. Before each stands its node and a space, by which it is found again; `node` has none.

local samples = KEYS[1]
local node, at_ms, keep_ms, sample = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local prefix = node .. ' '
for _, known in ipairs(redis.call('ZRANGEBYSCORE', samples, at_ms, at_ms)) do
  if string.sub(known, 1, #prefix) == prefix then return 0 end
end
redis.call('ZADD', samples, at_ms, prefix .. sample)
redis.call('ZREMRANGEBYSCORE', samples, '-inf', string.format('%.0f', now_ms - keep_ms))
redis.call('ZREMRANGEBYSCORE', samples, string.format('%.0f', now_ms + keep_ms), '+inf')
redis.call('PEXPIRE', samples, string.format('%.0f', keep_ms))
return 1
