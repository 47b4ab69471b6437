#!/usr/bin/python3
"""The leader of a service: it answers calls as their first path segment says, well, or as no leader should.

leader_server.py --directory DIR --name NAME [--port PORT]

Listens on 127.0.0.1, at any port unless told otherwise, and writes its port to DIR/NAME.port. Each call is a line of JSON in
DIR/NAME.log. While there is a file DIR/NAME.hold, slow calls are not answered, nor those that are to cancel a process; these get
the status that their reason names ("status 409"), else they are told that it is done.
"""
import argparse
import http.server
import json
import os
import re
import threading
import time

lock = threading.Lock()
counters = {}


def counter(name):
    """How often it was asked for this name before."""
    with lock:
        counters[name] = counters.get(name, 0) + 1
        return counters[name] - 1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *arguments):
        pass

    def note(self):
        self.body = self.rfile.read(int(self.headers.get('Content-Length', 0))).decode()
        self.seen = {'method': self.command, 'path': self.path, 'body': self.body, 'key': self.headers.get('Idempotency-Key'),
                     'token': self.headers.get('Amoro-Leader-Token'), 'type': self.headers.get('Content-Type')}
        with lock, open(os.path.join(options.directory, options.name + '.log'), 'a') as log:
            log.write(json.dumps(self.seen) + '\n')

    def answer(self, body, status=200, headers=()):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def wait_while_held(self):
        while os.path.exists(os.path.join(options.directory, options.name + '.hold')):
            time.sleep(0.01)

    def call(self):
        self.note()
        what = self.path.split('?')[0].split('/')[1:]
        try:
            if what[0] == 'status':
                self.answer('status ' + what[1], int(what[1]))
            elif what[0] == 'flaky':    # /flaky/NAME/TIMES/STATUS
                self.answer('at last' if counter(what[1]) >= int(what[2]) else 'not yet',
                            200 if counters[what[1]] > int(what[2]) else int(what[3]))
            elif what[0] == 'slow':
                self.wait_while_held()
                self.answer('slowly')
            elif what[:2] == ['v1', 'processes']:   # /v1/processes/ID/cancel
                self.wait_while_held()
                told = re.fullmatch(r'status (\d+)', json.loads(self.body)['reason'] or '')
                self.answer(told[0] if told else '{"cancelled": true}', int(told[1]) if told else 200)
            elif what[0] == 'cut':      # /cut/NAME/TIMES
                if counter(what[1]) < int(what[2]):
                    self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')
                    self.close_connection = True
                else:
                    self.answer('whole')
            elif what[0] == 'silent':
                time.sleep(3600)
            elif what[0] == 'mute':     # /mute/NAME: answers once
                if counter(what[1]) > 0:
                    time.sleep(3600)
                self.answer('status 500', 500)
            elif what[0] == 'grown':    # /grown/NAME: answers once, at length
                if counter(what[1]) > 0:
                    time.sleep(3600)
                self.answer(os.urandom(500000).hex(), 500)
            elif what[0] == 'large':
                self.answer('x' * int(what[1]))
            elif what[0] == 'bytes':
                self.answer(b'a\x00b\xff\xfec')
            elif what[0] == 'text':
                self.answer('caf\u00e9 \u20ac ' + self.body)
            elif what[0] == 'redirect':
                self.answer('', 302, [('Location', 'http://169.254.169.254/latest')])
            elif what[0] == 'round':    # /round/SECONDS: to itself, slowly
                time.sleep(float(what[1]))
                self.answer('', 302, [('Location', self.path)])
            elif what[0] == 'busy':
                self.answer('later', 503 if counter('busy') < 1 else 200, [('Retry-After', '1')])
            else:
                self.answer(json.dumps(self.seen))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = call


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


parser = argparse.ArgumentParser()
parser.add_argument('--directory', required=True)
parser.add_argument('--name', required=True)
parser.add_argument('--port', type=int, default=0)
options = parser.parse_args()
server = Server(('127.0.0.1', options.port), Handler)
with open(os.path.join(options.directory, options.name + '.new'), 'w') as file:
    file.write(str(server.server_port))
os.rename(os.path.join(options.directory, options.name + '.new'), os.path.join(options.directory, options.name + '.port'))
server.serve_forever()
