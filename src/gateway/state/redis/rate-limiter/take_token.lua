-- Takes one token out of a key's bucket (GCRA), or says how long to wait for one, and looks whether a slot is in use.
--
-- KEYS bucket slot
-- ARGV interval_us burst wanted
-- Reply {full_in_us, wait_us, leased, slot_taken}: time until the bucket is full, and until a token is there (0: this
--   call got one); tokens that the node got on top, of those that it wanted; 1 when the slot exists, whatever is in it
--
-- The bucket is one number: the moment, by this server's clock, at which it is full again. It expires then, because
-- a full bucket needs no record. Numbers are whole microseconds, written without an exponent: Lua would write
-- 1.7e+15 and lose the rest.

local bucket, slot = KEYS[1], KEYS[2]
local interval_us, burst, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local capacity_us = interval_us * burst

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local slot_taken = redis.call('EXISTS', slot)

-- No more than one whole bucket can be missing, also when the limit was lowered since the last take or the server's
-- clock was set back.
local full_at_us = tonumber(redis.call('GET', bucket) or 0)
local missing_us = math.min(math.max(full_at_us - now_us, 0), capacity_us)

local wait_us = missing_us + interval_us - capacity_us
if wait_us > 0 then return { missing_us, wait_us, 0, slot_taken } end
missing_us = missing_us + interval_us

-- The lower half of a bucket is never lent: near its limit every take is decided here, and the wait that a refused
-- caller is told stays true, since nobody takes a token for which there is no request.
local spare = math.floor((capacity_us - missing_us) / interval_us) - math.ceil(burst / 2)
local leased = math.max(math.min(wanted, spare), 0)
missing_us = missing_us + leased * interval_us

redis.call('SET', bucket, string.format('%.0f', now_us + missing_us), 'PX', math.ceil(missing_us / 1000))
return { missing_us, 0, leased, slot_taken }
