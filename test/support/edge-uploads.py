"""Uploads by Python's http.client. Arguments: port, authorization, content length to declare or a word, bytes, count.

Prints one line for each answer: its status and the error's code, or the name of the exception.
"""

import concurrent.futures
import http.client
import json
import sys

PORT, AUTHORIZATION, FRAMING, SIZE, COUNT = sys.argv[1:]
BODY = bytes(int(SIZE))
AT_ONCE = 5


def upload(_):
    connection = http.client.HTTPConnection('127.0.0.1', int(PORT), timeout=30)
    try:
        connection.putrequest('POST', '/v1/transcription')
        connection.putheader('Authorization', AUTHORIZATION)
        connection.putheader('Content-Type', 'audio/wav')
        chunked = FRAMING == 'chunked'
        if chunked:
            connection.putheader('Transfer-Encoding', 'chunked')
        elif FRAMING != 'none':
            connection.putheader('Content-Length', FRAMING)
        connection.endheaders(BODY, encode_chunked=chunked)
        response = connection.getresponse()
        text = response.read()
        # The native parser's own refusals are no JSON, and have no code.
        code = ' ' + json.loads(text)['error']['code'] if text.startswith(b'{') else ''
        return f'{response.status}{code}'
    except Exception as error:
        return type(error).__name__
    finally:
        connection.close()


with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    for outcome in pool.map(upload, range(int(COUNT))):
        print(outcome)
